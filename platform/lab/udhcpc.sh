#!/bin/sh
# Hook of busybox udhcpc in an app's namespace: does what a DHCP client should with a
# lease, writes the nameservers to $LAB_RESOLV and what it was told to $LAB_LEASE.
# It never writes to /etc: that is the machine's.
set -eu

tell() {
	cat >"$LAB_LEASE.new" <<END
ip=${ip:-}
mask=${mask:-}
router=${router:-}
dns=${dns:-}
domain=${domain:-}
hostname=${hostname:-}
mtu=${mtu:-}
ntp=${ntpsrv:-}
routes=${staticroutes:-}
server=${serverid:-}
lease=${lease:-}
END
	mv "$LAB_LEASE.new" "$LAB_LEASE"
}

bound() {
	ip -4 addr flush dev "$interface"
	ip addr add "$ip/$mask" dev "$interface"
	if [ -n "${mtu:-}" ]; then
		ip link set "$interface" mtu "$mtu"
	fi
	if [ -n "${staticroutes:-}" ]; then
		# RFC 3442: a client that got option 121 ignores option 3.
		set -- $staticroutes
		while [ $# -ge 2 ]; do
			if [ "$2" = 0.0.0.0 ]; then
				ip route replace "$1" dev "$interface"
			else
				ip route replace "$1" via "$2" dev "$interface" onlink
			fi
			shift 2
		done
	else
		for r in ${router:-}; do
			ip route replace default via "$r" dev "$interface"
		done
	fi
	: >"$LAB_RESOLV"
	if [ -n "${domain:-}" ]; then
		echo "search $domain" >>"$LAB_RESOLV"
	fi
	for s in ${dns:-}; do
		echo "nameserver $s" >>"$LAB_RESOLV"
	done
	tell
}

case "$1" in
deconfig)
	ip link set "$interface" up
	;;
bound | renew)
	bound
	;;
esac
