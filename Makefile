# SPDX-License-Identifier: GPL-2.0-only

# The kernel series to build for and test on.
KERNELS ?= 6.1 6.12
export KERNELS

help:
	@echo 'On Debian 12:'
	@echo '  setup     install what the rest needs (as root)'
	@echo '  modules   build the kernel modules into build/<series>/, KERNELS="$(KERNELS)"'
	@echo '  tools     build the tools into build/tools/'
	@echo '  man       build the manual pages into build/man/'
	@echo '  docs      build all documents as HTML into build/docs/, index.html first'
	@echo '  install   put tools, pages, units, rules, and the source of the module, below DESTDIR'
	@echo '  uninstall  take them away'
	@echo '  unit      run the unit tests'
	@echo '  test      set up, build, and run the tests, in virtual machines'
	@echo '  test-full the same, and all of them on each kernel'
	@echo '  test-debug  all that runs in virtual machines, on a debug kernel: a night'
	@echo '  test-boot  of these the ones that boot a Debian machine with our packages'
	@echo '  test-power  cut the power a thousand times, in virtual machines; CUTS, SEED'
	@echo '  lint      run every check of style and of static analysis'
	@echo '  demo      show a pool at work, in a virtual machine'
	@echo '  bench     measure, in a virtual machine'
	@echo '  figures   measure all that docs/figures.rst has, for hours'
	@echo '  clean     remove build/'

setup:
	tests/setup

modules:
	tests/vm/modules $(KERNELS)

tools:
	tests/vm/tools

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' tools/Cargo.toml)

# Where Debian has them.
SBINDIR ?= /usr/sbin
MANDIR ?= /usr/share/man
BASHDIR ?= /usr/share/bash-completion/completions
ZSHDIR ?= /usr/share/zsh/vendor-completions
FISHDIR ?= /usr/share/fish/vendor_completions.d
UDEVDIR ?= /lib/udev/rules.d
UNITDIR ?= /lib/systemd/system
DKMSDIR ?= /usr/src/dm-fusion-$(VERSION)
INITRAMFSDIR ?= /usr/share/initramfs-tools
DRACUTDIR ?= /usr/lib/dracut/modules.d/90fusion
DEFAULTDIR ?= /etc/default
units := fusion.service fusion-start@.service fusion-last-resort@.service fusion-last-resort@.timer \
	fusiond.service fusion-scrub.service fusion-scrub.timer
# Offline metadata tools, under the names that those of other targets have, too; and the monitor.
aliases := fusion_check fusion_dump fusion_restore fusion_repair fusiond
command = $(if $(filter fusiond,$(1)),monitor,$(1:fusion_%=%))

# fill MODE,FILE,TO: install it, with the directories filled in.
define fill
install -D -m $(1) $(2) $(DESTDIR)$(3)
	sed -i -e 's|@SBINDIR@|$(SBINDIR)|' -e 's|@UDEVDIR@|$(UDEVDIR)|' $(DESTDIR)$(3)
	
endef

install: install-tools install-dkms

# What the pages have of the command line's help is in build/cli, and as old as this.
build/.tools.key: tools
	@:

documents := $(basename $(notdir $(wildcard docs/*.rst)))
pages := $(filter %.5 %.8,$(documents)) dm-fusion.4

# Made by several at once it is whole all the same.
to_page = mkdir -p build/man && rst2man --strict $< $@.$$$$ && mv $@.$$$$ $@
build/man/dm-fusion.4: docs/dm-fusion.rst
	$(to_page)
build/man/%: docs/%.rst build/.tools.key
	$(to_page)

man: $(addprefix build/man/,$(pages))

# A page that is named with its section is a link to it.
build/docs/%.html: docs/%.rst build/.tools.key
	mkdir -p build/docs
	rst2html5 --strict $< $@
	sed -E -i $@ \
		-e 's|<strong>(fusion[a-z-]*)</strong>\(([58])\)|<a href="\1.\2.html">&</a>|g' \
		-e 's|<strong>dm-fusion</strong>\(4\)|<a href="dm-fusion.html">&</a>|g'

docs: $(patsubst %,build/docs/%.html,$(documents))
	cp docs/*.svg build/docs

# alias NAME: of the tool, and its page.
define alias
ln -sf fusion $(DESTDIR)$(SBINDIR)/$(1)
	echo .so man8/fusion-$(call command,$(1)).8 >$(DESTDIR)$(MANDIR)/man8/$(1).8

endef

install-tools: tools man
	install -D -t $(DESTDIR)$(SBINDIR) build/tools/fusion
	for page in $(pages); do \
		install -D -m 644 -t $(DESTDIR)$(MANDIR)/man$${page##*.} build/man/$$page || exit; \
	done
	$(foreach name,$(aliases),$(call alias,$(name)))
	$(call fill,644,udev/64-fusion.rules,$(UDEVDIR)/64-fusion.rules)
	$(foreach unit,$(units),$(call fill,644,systemd/$(unit),$(UNITDIR)/$(unit)))
	$(call fill,755,udev/initramfs-tools/hook,$(INITRAMFSDIR)/hooks/fusion)
	$(call fill,755,udev/initramfs-tools/local-block,$(INITRAMFSDIR)/scripts/local-block/fusion)
	$(call fill,755,udev/dracut/module-setup.sh,$(DRACUTDIR)/module-setup.sh)
	install -D -m 644 build/cli/fusion.bash $(DESTDIR)$(BASHDIR)/fusion
	install -D -m 644 -t $(DESTDIR)$(ZSHDIR) build/cli/_fusion
	install -D -m 644 -t $(DESTDIR)$(FISHDIR) build/cli/fusion.fish
	install -D -m 644 systemd/fusiond.default $(DESTDIR)$(DEFAULTDIR)/fusiond

# The module's source, where DKMS builds it for each kernel: "dkms install dm-fusion/VERSION".
install-dkms:
	install -D -m 644 -t $(DESTDIR)$(DKMSDIR) dm-fusion/*.[ch] dm-fusion/Kbuild COPYING
	install -t $(DESTDIR)$(DKMSDIR) dm-fusion/*.sh
	sed 's|@VERSION@|$(VERSION)|' dm-fusion/dkms.conf.in >$(DESTDIR)$(DKMSDIR)/dkms.conf

uninstall:
	cd $(DESTDIR)$(SBINDIR) && rm -f fusion $(aliases)
	cd $(DESTDIR)$(MANDIR) && rm -f $(foreach page,$(pages) $(addsuffix .8,$(aliases)),man$(lastword $(subst ., ,$(page)))/$(page))
	rm -f $(DESTDIR)$(BASHDIR)/fusion $(DESTDIR)$(ZSHDIR)/_fusion $(DESTDIR)$(FISHDIR)/fusion.fish
	rm -f $(DESTDIR)$(UDEVDIR)/64-fusion.rules
	cd $(DESTDIR)$(UNITDIR) && rm -f $(units)
	rm -f $(DESTDIR)$(INITRAMFSDIR)/hooks/fusion $(DESTDIR)$(INITRAMFSDIR)/scripts/local-block/fusion
	rm -f $(DESTDIR)$(DEFAULTDIR)/fusiond
	rm -rf $(DESTDIR)$(DRACUTDIR) $(DESTDIR)$(DKMSDIR)

unit:
	$(MAKE) -C tests/unit

test:
	tests/all

test-full:
	tests/all --full

test-debug:
	tests/all --debug

test-boot:
	tests/setup
	bats --timing tests/bats/host/boot.bats

test-power:
	tests/power --cuts $(or $(CUTS),1000) --seed $(or $(SEED),1)

lint:
	tests/lint

demo:
	tests/demo

bench:
	tests/bench/run
	mkdir -p build/bench
	tests/bench/mixes --html build/bench/mixes.html --json build/bench/mixes.json

figures:
	tests/figures

clean:
	rm -rf build

.PHONY: help setup modules tools man docs install install-tools install-dkms uninstall unit test test-full test-debug test-boot test-power lint demo bench figures clean
