#!/usr/bin/env bats
# docs/tutorial.rst, step by step, as it is written.
#
# In its literal blocks a line that begins with "# " is a command; the lines that follow it, if
# there are any, are what it prints.  There "..." is anything, and alone on a line any lines; a
# number with a unit, as "64K", is any such number; and how many spaces there are does not count.
# One that prints "fusion: ..." first, as errors are, is to fail.  What is before the first command
# of a block is no part of this.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/labels.bash
source "$BATS_TEST_DIRNAME/labels.bash"

tutorial=${TUTORIAL:-$repo/docs/tutorial.rst}

setup_file() { with_rules; }
teardown_file() { without_rules; }

# nvme NUMBER: a device that is called as the tutorial's are.
nvme() {
	dm create "nvme$1n1" --table "0 $((110 << 11)) linear /dev/mapper/ssd$(($1 % 8)) $((2048 + $1 / 8 * (120 << 11)))"
	ln -sf "mapper/nvme$1n1" "/dev/nvme$1n1"
}
test_setup() {
	local i
	for i in {0..8}; do nvme "$i"; done
	mkdir "$BATS_TEST_TMPDIR/cwd"
}
test_teardown() {
	! mountpoint -q /mnt || umount /mnt
	[ ! -e /dev/mapper/tank ] || fusion pool stop tank >/dev/null
	rm -f /dev/nvme[0-8]n1
	rm -rf /run/fusion
}

# steps: for each command its line in the tutorial and itself, and what it prints, if that is shown;
# these apart by a byte 1, and with one of 0 behind each step.
steps() {
	perl -ne '
		sub step { print join("\x01", $at, $command, $shown), "\0" if defined $command; undef $command }
		if (/^( +)/ && $literal) {
			$indent //= length $1;
			my $line = substr $_, $indent;
			if ($line =~ /^# (.*)/) { step(); ($at, $command, $shown) = ($., $1, "") }
			elsif (defined $command) { $shown .= $line }
		} elsif (/^$/) {
			$shown .= $_ if defined $command;
		} else {
			step();
			$literal = /::$/;
			undef $indent;
		}
		END { step() }' "$tutorial"
}
# prints SHOWN: standard input is that.
prints() {
	perl -0777 -e '
		my ($shown, $is) = ($ARGV[0], scalar <STDIN> // "");
		s/\s+\z/\n/ for $shown, $is;
		my $number = qr/(?<![\w.])\d+(?:\.\d+)?(?: ?(?:[KMGTP]i?B?|B))(?!\w)/;
		my $pattern = "";
		for (split /^/, $shown) {
			if (/^\s*\.\.\.$/) { $pattern .= "(?:.*\n)*"; next }
			s/\n//;
			for (split /(\.\.\.|$number|\s+)/) {
				$pattern .= /^\.\.\.$/ ? ".*" : /^$number$/ ? "$number" : /^\s+$/ ? "[ \t]+" : quotemeta;
			}
			$pattern .= "[ \t]*\n";
		}
		exit($is !~ /\A$pattern\z/)' "$1"
}

@test "the tutorial does what it says" {
	cd "$BATS_TEST_TMPDIR/cwd"
	count=0
	while IFS=$'\1' read -r -d '' at command shown; do
		run bash -c "$command"
		output=${output//\/dev\/mapper\/nvme//dev/nvme}
		[[ $shown = 'fusion: '* ]] && expected=1 || expected=0
		[ "$status" -eq "$expected" ] || { echo "$tutorial:$at: '$command' ended with $status: $output"; return 1; }
		[[ -z ${shown//[[:space:]]/} ]] || prints "$shown" <<<"$output" || {
			printf '%s\n' "$tutorial:$at: '$command' is to print:" "$shown" "but prints:" "$output"
			return 1
		}
		count=$((count + 1))
	done < <(steps)
	# all of it was found, and nothing is left
	[ "$count" -ge 25 ]
	[ "$count" -eq "$(grep -c '^    # ' "$tutorial")" ]
	[ ! -e /dev/mapper/tank ]
}

@test "a tutorial that says something else would be noticed" {
	prints $'a ...\n...\nz\n' <<<$'a b\nc\nd\nz'
	prints $'size 64K  of 1.5G\n' <<<'size  1.25M of 3G'
	prints 'no  more' <<<'no more'
	for wrong in 'size 64K' 'size 64' $'size 1M\nof' 'of 1M' 'size' 'size ... x' $'...\nx'; do
		run ! prints "$wrong" <<<'size 5M of'
	done
	printf '%s\n' 'Do::' '' '    # true' '    # echo a' '    a' '    ' '    # echo b' '' 'And::' '' '    x' '' \
		'that::' '' '  # c' >"$BATS_TEST_TMPDIR/tutorial"
	tutorial=$BATS_TEST_TMPDIR/tutorial
	[ "$(steps | tr '\0\1' ';,' | tr -d '\n')" = '3,true,;4,echo a,a;7,echo b,;15,c,;' ]
}
