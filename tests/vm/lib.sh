# shellcheck shell=bash
# What the lab's scripts share.  Source it; it changes nothing but variables.

# Everything that is downloaded or built outside the clone lives here.
FUSION_CACHE=${FUSION_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dm-fusion}

# The kernels we build for and test on, oldest first.
# shellcheck disable=SC2034 # used by the others
FUSION_KERNELS=${KERNELS:-6.1 6.12}

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit "${DIE_STATUS:-1}"; }

# What virtual machines are run by here, as the first of tests/vm/run has found out; it holds until
# this machine is booted again.
# shellcheck disable=SC2034
FUSION_ACCEL_FILE=$FUSION_CACHE/accel-$(</proc/sys/kernel/random/boot_id)

# quietly COMMAND...: what it prints only if it fails, and then it is the end.
quietly() {
	local log
	log=$(mktemp)
	if ! "$@" >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		die "$* failed"
	fi
	rm -f "$log"
}

# keep_newest N DIR PATTERN: no more of what the cache has of these than what was used last.
keep_newest() {
	find "$2" -mindepth 1 -maxdepth 1 -name "$3" -printf '%T@ %p\0' | sort -zrn | tail -zn "+$(($1 + 1))" |
		cut -zd ' ' -f 2- | xargs -0r rm -rf --
}

# hash_of PATH...: a short hash of the names and contents of files, and of those
# below directories; relative to the current directory.
hash_of() {
	find "$@" -type f \( -name '*.[chS]' -o -name '*.rs' -o -name '*.toml' -o -name '*.lock' -o \
		-name '*.sh' -o -name Kbuild -o -path '*/vm/*' -o -path '*/kernels/*' \) \
		-not -path '*/target/*' -print0 |
		LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c1-20
}

# store KEY FILE...: keep built files in the cache for whoever builds the same.
store() {
	local dir=$FUSION_CACHE/built/$1 tmp
	shift
	mkdir -p "$FUSION_CACHE/built"
	tmp=$(mktemp -d "$FUSION_CACHE/built/.XXXXXX")
	cp -p "$@" "$tmp"
	chmod 755 "$tmp"
	rm -rf "$dir"
	mv "$tmp" "$dir" 2>/dev/null || rm -rf "$tmp"
	find "$FUSION_CACHE/built" -mindepth 1 -maxdepth 1 -mtime +14 -exec rm -rf {} +
}

# recall KEY DIR: put files that store kept into DIR, if there are any.
recall() {
	[ -d "$FUSION_CACHE/built/$1" ] || return 1
	mkdir -p "$2"
	# Replaced, never written to: a guest may be reading them.
	cp -p --remove-destination "$FUSION_CACHE/built/$1"/* "$2"
}
