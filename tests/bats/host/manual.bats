#!/usr/bin/env bats
# Manual pages, completions and HTML, from docs/ and the tool's command line.

root=$BATS_TEST_DIRNAME/../../..

setup_file() { make -s -C "$root" man docs; }

# commands [GROUP]: those that the help has.
commands() {
	"$root/build/tools/fusion" "$@" -h | awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 } on && /^  [a-z]/ && $1 != "help" { print $1 }'
}

@test "each command has a page, with its options" {
	mapfile -t all < <(commands)
	[ ${#all[@]} -ge 12 ]
	for command in "${all[@]}"; do
		page=$root/build/man/fusion-$command.8
		[ -f "$page" ] || { echo "there is no page of $command"; return 1; }
		mapfile -t below < <(commands "$command")
		[ ${#below[@]} -gt 0 ] || below=('')
		text=$(MANWIDTH=1000 man -l "$page" | cat)
		for leaf in "${below[@]}"; do
			grep -q "^ *fusion $command${leaf:+ $leaf}" <<<"$text"
			# shellcheck disable=SC2086
			for option in $("$root/build/tools/fusion" "$command" $leaf -h | grep -oE '^ +(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
				[[ $option = --json || $option = --help || $text == *"$option"* ]] || { echo "$page has no $option"; return 1; }
			done
		done
	done
	# nothing that the command line says is left out
	for part in "$root"/build/cli/*.rst; do
		grep -qxF ".. include:: ../build/cli/${part##*/}" "$root"/docs/*.rst || { echo "no page has $part"; return 1; }
	done
}

@test "pages are without warnings" {
	for page in "$root"/build/man/*; do
		warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='' man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)
		[ -z "$warnings" ] || { echo "$page: $warnings"; return 1; }
		# it has a name, for apropos
		[ -n "$(LC_ALL=C.UTF-8 lexgrog "$page")" ]
	done
}

@test "what HTML refers to is there" {
	cd "$root/build/docs"
	for page in *.html; do
		while IFS= read -r link; do
			[ -e "$link" ] || { echo "$page refers to $link"; return 1; }
		done < <(grep -oE '(href|src|data)="[^"#:]+"' "$page" | cut -d'"' -f2 | sort -u)
	done
	# from the index all can be found
	for page in *.html; do
		[ "$page" = index.html ] || grep -q "href=\"$page\"" index.html || { echo "the index has no $page"; return 1; }
	done
}

@test "completions complete" {
	bash -n "$root/build/cli/fusion.bash"
	completed() {
		bash -c 'source "$1"; COMP_WORDS=(fusion "${@:2}"); COMP_CWORD=$#; COMP_CWORD=$((COMP_CWORD - 1))
			_fusion fusion "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
			echo "${COMPREPLY[*]}"' bash "$root/build/cli/fusion.bash" "$@"
	}
	[ "$(completed sc)" = "scrub scan" ]
	[ "$(completed pool s)" = "start stop status set" ]
	[ "$(completed pool create --no)" = "--no-discard-passdown --no-journal" ]
	! command -v zsh >/dev/null || zsh -n "$root/build/cli/_fusion"
	! command -v fish >/dev/null || fish -n "$root/build/cli/fusion.fish"
}
