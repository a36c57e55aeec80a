#!/bin/sh
# Installs the Debian packages of the commands that the daemon and the demo run, and with
# the word 'tests' also of those that only tests do: the race detector is linked by a C
# compiler, whose headers come with gencat; with 'vm' also what a virtual machine needs, with 'soak' what makes the
# image of one as well, and with 'ipsec'
# also strongSwan, which a node needs for networks of type vpn with IPsec. It does so
# only where a command is missing: on a machine that has them it needs neither root nor a network.
# As root it makes the users that dnsmasq and the processes of WireGuard tunnels run as.
set -eu

case "${*-}" in
'' | tests | vm | soak | ipsec) ;;
*)
	echo "setup: $*: nothing, 'tests', 'vm', 'soak' or 'ipsec' is allowed" >&2
	exit 2
	;;
esac

PATH=$PATH:/usr/sbin:/sbin

# dnsmasq runs as a user that nothing else runs as, and so do processes of WireGuard tunnels. Without root dnsmasq
# shares its user, of which edgespan doctor tells.
for user in edgespan-dns edgespan-vpn; do
	if [ "$(id -u)" = 0 ] && ! getent passwd "$user" >/dev/null 2>&1 && command -v useradd >/dev/null 2>&1; then
		useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$user"
	fi
done
# The groups whose members may attach a debug shell, and change something with it (docs/shell.md). Both begin empty.
for group in edgespan edgespan-admin; do
	if [ "$(id -u)" = 0 ] && ! getent group "$group" >/dev/null 2>&1 && command -v groupadd >/dev/null 2>&1; then
		groupadd --system "$group"
	fi
done

packages=
while read -r command package; do
	if [ -n "$command" ] && ! command -v "$command" >/dev/null 2>&1; then
		case " $packages " in
		*" $package "*) ;;
		*) packages="$packages $package" ;;
		esac
	fi
done <<END
$(if [ "${1-}" = tests ]; then printf '%s\n' 'hiera hiera' 'puppet puppet-agent' 'ruby ruby' 'mount mount' 'gcc gcc' 'gencat libc6-dev' 'nfcapd nfdump' 'nfdump nfdump' 'promtool prometheus'; fi)
$(if [ "${1-}" = vm ] || [ "${1-}" = soak ]; then printf '%s\n' 'qemu-system-x86_64 qemu-system-x86' 'depmod kmod' 'mount mount'; fi)
$(if [ "${1-}" = soak ]; then printf '%s\n' 'mmdebstrap mmdebstrap' 'qemu-img qemu-utils' 'mkfs.ext4 e2fsprogs'; fi)
$(if [ -n "${1-}" ]; then printf '%s\n' 'charon-systemd charon-systemd' 'swanctl strongswan-swanctl'; fi)
dnsmasq dnsmasq-base
iptables-restore iptables
nft nftables
ipset ipset
ip iproute2
conntrack conntrack
udhcpc udhcpc
dig dnsutils
curl curl
ping iputils-ping
sysctl procps
modprobe kmod
tcpdump tcpdump
END

if [ -z "$packages" ]; then
	exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
	echo "setup: commands are missing, and so is apt-get: install:$packages" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	echo "setup: needs root to install:$packages" >&2
	exit 1
fi
# The plugins of strongSwan are in packages without commands. Its service is another charon than those of networks:
# where the package comes by this script, it is neither started nor enabled.
unit=
case " $packages " in
*' charon-systemd '*)
	packages="$packages libcharon-extra-plugins libcharon-extauth-plugins"
	packages="$packages libstrongswan-standard-plugins libstrongswan-extra-plugins"
	if command -v systemctl >/dev/null 2>&1; then
		unit=strongswan.service
	fi
	;;
esac
echo "setup: installing$packages"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
if [ -n "$unit" ] && [ -d /run/systemd/system ]; then
	systemctl mask --runtime "$unit"
fi
# shellcheck disable=SC2086 # a list of words
apt-get install -q -y --no-install-recommends $packages
if [ -n "$unit" ]; then
	if [ -d /run/systemd/system ]; then
		systemctl unmask --runtime "$unit"
	fi
	systemctl disable "$unit"
fi
