#!/bin/sh
# Hook of udhcpc in an app's namespace: address, MTU and routes of a lease.
case "$1" in
deconfig)
	# A client that asks again keeps its address meanwhile.
	ip link set "$interface" up
	;;
bound | renew)
	if ! ip -4 addr show dev "$interface" | grep -q " $ip/"; then
		ip -4 addr flush dev "$interface"
		ip addr add "$ip/$mask" dev "$interface"
	fi
	[ -z "$mtu" ] || ip link set "$interface" mtu "$mtu"
	# RFC 3442: a client that got option 121 ignores option 3.
	set -- $staticroutes
	if [ $# -eq 0 ] && [ -n "$router" ]; then
		set -- 0.0.0.0/0 "$router"
	fi
	while [ $# -ge 2 ]; do
		if [ "$2" = 0.0.0.0 ]; then
			ip route replace "$1" dev "$interface"
		else
			ip route replace "$1" via "$2" dev "$interface" onlink
		fi
		shift 2
	done
	;;
esac
