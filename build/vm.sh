#!/bin/bash
# vm.sh [SUITE]: run the data plane's kernel tests again, in a virtual machine whose
# kernel has WireGuard (Debian's cloud kernel), because the kernel of the building machine
# may have none. The kernel is that of this machine's Debian release, or of SUITE:
# bullseye has 5.10, the oldest kernel that the programs promise to run on.
#
# qemu emulates the CPU (TCG), so it needs neither KVM nor root. Everything is slower, but
# the kernel's code is real. The result is read from the serial console: if the machine
# ends without the line "vm: exit 0", the tests have failed.
set -euo pipefail
suite=${1:-}
tests=vm${suite:+-5.10} # the part of build/parts
cache=$PWD/bin/vm${suite:+-$suite}
deadline=${VM_DEADLINE:-2700} # seconds: a third of the tests takes 2 to 5 minutes on two cores, all of them 15

skip() { # where the tests must run, it is a failure
	echo "--- SKIP: kernel WireGuard in a virtual machine: $*"
	[ "${REQUIRE_NETNS:-}" = "" ] || exit 1
	exit 0
}
[ "$(uname -m)" = x86_64 ] || skip "the virtual machine is for x86_64, this is $(uname -m)"
tools=(ip bridge nft wg conntrack)
for tool in qemu-system-x86_64 busybox cpio depmod modprobe apt-get dpkg-deb "${tools[@]}"; do
	command -v "$tool" >/dev/null || skip "no $tool command; as root, make deps installs it"
done
mkdir -p "$cache"

# apt uses its own lists here, so that the building machine does not get packages of
# another release.
apt=()
if [ -n "$suite" ]; then
	mkdir -p "$cache"/apt/{lists,archives}/partial
	keys=/usr/share/keyrings/debian-archive-keyring.gpg
	printf "deb [signed-by=$keys] http://deb.debian.org/%s main\n" "debian $suite" "debian-security $suite-security" >"$cache/apt/sources.list"
	: >"$cache/apt/status"
	apt=(-o "Dir::Etc::sourcelist=$cache/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$cache/apt/lists"
		-o "Dir::Cache=$cache/apt" -o "Dir::State::status=$cache/apt/status" -o APT::Sandbox::User=root)
fi

# The metapackage names the present kernel of Debian.
today() { apt-cache "${apt[@]}" depends linux-image-cloud-amd64 2>/dev/null | awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ {print $2; exit}'; }
download() { # into $kernel; old lists name packages that are gone
	package=$(today)
	kernel=$cache/${package#linux-image-}
	[ -n "$package" ] || return
	[ ! -e "$kernel/complete" ] || return 0
	rm -rf "$kernel"
	mkdir -p "$kernel"
	(cd "$kernel" && apt-get "${apt[@]}" download -qq "$package") >"$cache/apt.log" 2>&1
}
if ! download; then
	((EUID == 0)) && apt-get "${apt[@]}" update >"$cache/apt.log" 2>&1
	download || skip "no kernel package: $(tail -n 1 "$cache/apt.log")"
fi
release=${package#linux-image-}
if [ ! -e "$kernel/complete" ]; then
	dpkg-deb -x "$kernel/$package"_*.deb "$kernel"
	rm "$kernel/$package"_*.deb
	# Newer releases of Debian have the modules in /usr/lib, older ones in /lib.
	[ -d "$kernel/lib" ] || ln -s usr/lib "$kernel/lib"
	depmod -b "$kernel" "$release"
	touch "$kernel/complete"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys,tmp,run,var/run,modules,tests} "$work/plan"
cp "$(command -v busybox)" "$root/bin/busybox"
# The packages, and the tests to run in each. VM_TESTS chooses other tests.
go run ./build/parts plan "$work/plan" >/dev/null
while read -r _ _ run packages; do
	for package in $packages; do
		name=${package##*/}
		go test -c -o "$root/tests/$name.test" "$package"
		[ ! -d "$package/testdata" ] || cp -r "$package/testdata" "$root/tests/"
		printf "./%s.test -test.v -test.parallel 1 -test.timeout 40m -test.run '%s' || failed=1\n" "$name" "${VM_TESTS:-$run}"
	done
done <"$work/plan/$tests" >"$work/tests"

# The tools that the tests call, with their shared libraries.
for tool in "${tools[@]}"; do
	file=$(command -v "$tool")
	install -D "$(readlink -f "$file")" "$root/usr/bin/$tool"
	ldd "$file" | awk '/=> \// {print $3} $1 ~ /^\// {print $1}'
done | sort -u | while read -r library; do
	install -D "$(readlink -f "$library")" "$root$library"
done

# nft and ip print the names of protocols if they find this file.
install -D -m 644 /etc/protocols "$root/etc/protocols"

# The modules, each after the modules that it needs. Built-in modules are left out.
modules=(wireguard vxlan geneve veth tun bridge nf_conntrack_netlink xt_conntrack)
for path in "$kernel/lib/modules/$release"/kernel/net/{netfilter,ipv4/netfilter}/nft_*.ko*; do
	module=${path##*/}
	modules+=("${module%%.ko*}")
done
for module in "${modules[@]}"; do # one of a newer kernel may be missing
	modprobe -d "$kernel" -S "$release" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' | while read -r path; do
	name=${path##*/}
	case $name in
	*.xz) xz -dc "$path" >"$root/modules/${name%.xz}" ;;
	*.zst) zstd -qdc "$path" >"$root/modules/${name%.zst}" ;;
	*) cp "$path" "$root/modules/" ;;
	esac
	name=${name%.xz}
	echo "${name%.zst}"
done >"$root/modules/order"

cat >"$root/init" <<'INIT'
#!/bin/busybox sh
# busybox's sh would prefer its own applets to the real tools in /usr/bin, so only these
# applets are linked.
for applet in sh mount mkdir mknod cat cut test sleep insmod poweroff uname ls grep true; do
	/bin/busybox ln -s busybox "/bin/$applet"
done
export PATH=/usr/bin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir -p /dev/net
[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
while read -r module; do insmod "/modules/$module" || echo "vm: no $module"; done </modules/order
echo "vm: Linux $(uname -r) after $(cut -d' ' -f1 /proc/uptime) s"
cd /tests
export REQUIRE_NETNS=1 REQUIRE_WIREGUARD=kernel EMULATED=1 @environment@
failed=0
@tests@
echo "vm: exit $failed after $(cut -d' ' -f1 /proc/uptime) s"
poweroff -f
INIT
sed -i -e "s/@environment@/SEED=${SEED:-1} TEST_ALL=${TEST_ALL:-}/" -e "/^@tests@/ {r $work/tests" -e 'd}' "$root/init"
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd"

# microvm machines printed nothing. The default machine boots in 4 s.
timeout "$deadline" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1024 \
	-nodefaults -nographic -no-reboot -serial stdio \
	-kernel "$kernel/boot/vmlinuz-$release" -initrd "$work/initrd" \
	-append "console=ttyS0 quiet panic=-1 mitigations=off" </dev/null 2>&1 | tr -d '\r' | tee "$work/console" || true
if ! grep -aq '^vm: exit 0 ' "$work/console"; then
	echo "the tests in the virtual machine failed, or it did not end within $deadline s" >&2
	exit 1
fi
passed=$(grep -ac -- '^--- PASS: ' "$work/console" || true)
if ((passed == 0)); then
	echo "no test ran in the virtual machine" >&2
	exit 1
fi
echo "vm: $passed tests passed with the WireGuard of Linux $release"
