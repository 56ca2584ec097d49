#!/usr/bin/env bats
# What 'make install' puts where, and that all of it goes again.

root=$BATS_TEST_DIRNAME/../../..

files() { (cd "$BATS_TEST_TMPDIR/to" && find . -type f -o -type l); }

@test "what is installed is whole, and taken away again" {
	to=$BATS_TEST_TMPDIR/to
	make -s -C "$root" install DESTDIR="$to"
	"$to/usr/sbin/fusion" --version
	[ "$("$to/usr/sbin/fusion_check" -h | head -n 1)" = "$("$to/usr/sbin/fusion" check -h | head -n 1)" ]
	# nothing is left to be filled in
	if grep -r '@[A-Z]*@' "$to/lib"; then false; fi
	# what the rules want is there
	mapfile -t units < <(grep -o 'fusion-[a-z-]*@$env{ID_FS_UUID}\.[a-z]*' "$to/lib/udev/rules.d/64-fusion.rules")
	[ ${#units[@]} -eq 2 ]
	for unit in "${units[@]}"; do
		[ -f "$to/lib/systemd/system/${unit/'$env{ID_FS_UUID}'/}" ]
	done
	make -s -C "$root" uninstall DESTDIR="$to"
	[ -z "$(files)" ]
}

@test "systemd takes the units as they are" {
	command -v systemd-analyze >/dev/null || skip "systemd is not here"
	to=$BATS_TEST_TMPDIR/to
	make -s -C "$root" install DESTDIR="$to"
	run systemd-analyze verify --root="$to" --man=no "$to"/lib/systemd/system/fusion*
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}
