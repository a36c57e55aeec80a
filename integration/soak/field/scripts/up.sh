#!/bin/sh
# What another program does when the machine starts: the address of the first uplink, the namespaces of apps, and
# objects that the daemon must never touch. Everything may be there already. $1 is the node, $2 the address of the
# first uplink, $3 its gateway, $4 the link that clusters may use, $5 the address of the app behind it.
set -eu
modprobe tun
ip link set lo up
ip link set eth0 up
ip addr replace "$2/24" dev eth0
ip route replace default via "$3" dev eth0
for app in 1 2 3 4 5 6; do
	[ -e "/run/netns/app$app" ] || ip netns add "app$app"
	ip -n "app$app" link set lo up
done
ip link show "$4" >/dev/null 2>&1 || ip link add "$4" type veth peer name eth0 netns app6
ip link set "$4" up
ip -n app6 link set eth0 up
ip -n app6 addr replace "$5/24" dev eth0
mkdir -p /run/soak-hang
ip link show foreign0 >/dev/null 2>&1 || ip link add foreign0 type bridge
ip link set foreign0 up
ip addr replace 172.31.77.1/24 dev foreign0
ip route replace 172.31.78.0/24 dev foreign0 table 4242
ip rule show | grep -q 'lookup 4242' || ip rule add from 172.31.77.0/24 lookup 4242 priority 31000
iptables -N FOREIGN 2>/dev/null || true
iptables -C FOREIGN -s 172.31.77.0/24 -j DROP 2>/dev/null || iptables -A FOREIGN -s 172.31.77.0/24 -j DROP
iptables -C FORWARD -j FOREIGN 2>/dev/null || iptables -A FORWARD -j FOREIGN
nft list table ip foreign >/dev/null 2>&1 || nft -f - <<'END'
table ip foreign {
	set people {
		type ipv4_addr
		elements = { 172.31.77.9 }
	}
	chain seen {
		ip saddr @people counter
	}
}
END
