#!/usr/bin/env bats
# What 'make install' puts where, and that all of it goes again.

root=$BATS_TEST_DIRNAME/../../..

files() { (cd "$BATS_TEST_TMPDIR/to" && find . -type f -o -type l); }

@test "what is installed is whole, and taken away again" {
	to=$BATS_TEST_TMPDIR/to
	make -s -C "$root" install DESTDIR="$to"
	"$to/usr/sbin/fusion" --version
	[ "$("$to/usr/sbin/fusiond" -h | head -n 1)" = "$("$to/usr/sbin/fusion" monitor -h | head -n 1)" ]
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
	# what they are tied to by default
	for name in sysinit basic timers multi-user time-set time-sync; do
		echo "[Unit]" >"$to/lib/systemd/system/$name.target"
	done
	run systemd-analyze verify --root="$to" --man=no "$to"/lib/systemd/system/fusion*
	echo "$output"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "the services have few rights" {
	command -v systemd-analyze >/dev/null || skip "systemd is not here"
	to=$BATS_TEST_TMPDIR/to
	make -s -C "$root" install DESTDIR="$to"
	# of 10.0, in tenths; below 5.0 systemd says OK
	for unit in fusiond:30 fusion-scrub:20; do
		run systemd-analyze security --offline=true --threshold="${unit#*:}" "$to/lib/systemd/system/${unit%:*}.service"
		[ "$status" -eq 0 ]
	done
	# what is commented out in the file would be taken
	sed -n 's/^#\(FUSIOND_.*\)/\1/p' "$to/etc/default/fusiond" >"$BATS_TEST_TMPDIR/set"
	while IFS='=' read -r name _; do
		"$to/usr/sbin/fusiond" -h | grep -q "$name"
	done <"$BATS_TEST_TMPDIR/set"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/set")" -eq 4 ]
}

@test "packages are built, and lintian has nothing to say" {
	packages=$("$root/tests/vm/packages")
	run lintian --allow-root "$packages"/*.changes
	echo "$output"
	[ "$status" -eq 0 ]
	if grep '^[EW]:' <<<"$output"; then false; fi
	# the module's source is whole: what is there is what a build by hand has
	dpkg-deb -x "$packages"/dm-fusion-dkms_*.deb "$BATS_TEST_TMPDIR/to"
	diff -r --exclude=COPYING --exclude=dkms.conf --exclude=dkms.conf.in --exclude=compat-generated.h \
		"$root/dm-fusion" "$BATS_TEST_TMPDIR"/to/usr/src/dm-fusion-*
}

@test "headers of dm-persistent-data are those of exactly the kernel, or none" {
	kdir=$BATS_TEST_TMPDIR/kdir
	headers=$root/dm-fusion/md-headers.sh
	mkdir -p "$kdir/include/generated"
	run "$headers" "$kdir" "$BATS_TEST_TMPDIR/md"
	[ "$status" -eq 1 ]
	[[ $output == *"$kdir is no source tree, and of no Debian kernel"* ]]
	echo '#define LINUX_PACKAGE_ID " Debian 6.1.1-7"' >"$kdir/include/generated/package.h"
	run "$headers" "$kdir" "$BATS_TEST_TMPDIR/md"
	[ "$status" -eq 1 ]
	[[ $output == *"the kernel is of version 6.1.1-7, and linux-source-6.1 is "*": install that of version 6.1.1-7"* ]]
	# a kernel that was built by hand
	mkdir -p "$kdir/drivers/md/persistent-data"
	: >"$kdir/drivers/md/persistent-data/dm-btree.h"
	[ "$("$headers" "$kdir" "$BATS_TEST_TMPDIR/md")" = "$(cd "$kdir/drivers/md" && pwd -P)" ]
}
