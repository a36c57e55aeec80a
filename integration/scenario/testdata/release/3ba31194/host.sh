# What 3ba31194 left on a host, written by make release-testdata.
# $NODE and $APP_web … are the namespaces.
set -e
chmod 755 "$LAB/run"
chmod 644 "$LAB/run/daemon.json"
chmod 755 "$LAB/run/host"
chmod 600 "$LAB/run/host/base.json"
chmod 600 "$LAB/run/host/chains.json"
chmod 644 "$LAB/run/host/sysctl.json"
chmod 755 "$LAB/run/ni"
chmod 755 "$LAB/run/ni/1"
chmod 600 "$LAB/run/ni/1/chains.json"
chmod 755 "$LAB/run/ni/1/conf"
chmod 755 "$LAB/run/ni/1/conf/dhcp-hosts"
chmod 644 "$LAB/run/ni/1/conf/dhcp-hosts/a0000000-0000-4000-8000-000000000001-0"
chmod 644 "$LAB/run/ni/1/conf/dhcp-hosts/a0000000-0000-4000-8000-000000000002-0"
chmod 644 "$LAB/run/ni/1/conf/dnsmasq.conf"
chmod 755 "$LAB/run/ni/1/conf/hosts"
chmod 644 "$LAB/run/ni/1/conf/hosts/db"
chmod 644 "$LAB/run/ni/1/conf/hosts/printer"
chmod 644 "$LAB/run/ni/1/conf/hosts/web"
chmod 644 "$LAB/run/ni/1/conf/opts"
chmod 644 "$LAB/run/ni/1/conf/servers"
chmod 755 "$LAB/run/ni/1/dnsmasq"
chmod 644 "$LAB/run/ni/1/dnsmasq/leases"
chmod 600 "$LAB/run/ni/1/dnsmasq/process.json"
chmod 644 "$LAB/run/ni/1/owner"
chmod 755 "$LAB/run/ni/2"
chmod 600 "$LAB/run/ni/2/chains.json"
chmod 644 "$LAB/run/ni/2/owner"
chmod 755 "$LAB/state"
chmod 600 "$LAB/state/config-confirmed.0"
chmod 600 "$LAB/state/config-confirmed.1"
chmod 600 "$LAB/state/config-copy.0"
chmod 600 "$LAB/state/events.log"
chmod 600 "$LAB/state/journal"
chmod 600 "$LAB/state/journal-mark.0"
chmod 600 "$LAB/state/journal-mark.1"
chmod 600 "$LAB/state/journal.lock"
chmod 644 "$LAB/state/node-id"
ip -n $NODE link add es1 type bridge nf_call_iptables 1 nf_call_ip6tables 1
ip -n $NODE link set es1 addrgenmode none address 02:80:f3:db:6d:9b mtu 1500 alias 'edgespan ni 10000000-0000-4000-8000-000000000001'
ip -n $NODE link set es1 up
ip -n $NODE link add es2 type bridge nf_call_iptables 1 nf_call_ip6tables 1
ip -n $NODE link set es2 addrgenmode none address 02:0c:fd:f4:ad:e3 mtu 1500 alias 'edgespan ni 10000000-0000-4000-8000-000000000002'
ip -n $NODE link set es2 up
ip -n $NODE link add es1a1 mtu 1500 type veth peer name eth0 mtu 1500 netns $APP_web
ip -n $APP_web link set eth0 address 02:f0:a8:1f:69:9e
ip -n $APP_web link set eth0 up
ip -n $APP_web addr add 10.1.0.128/24 dev eth0
ip -n $APP_web route add default via 10.1.0.1 onlink dev eth0
ip -n $APP_web route add 192.0.2.0/24 via 10.1.0.1 onlink dev eth0
ip -n $APP_web route add 203.0.113.0/24 via 10.1.0.1 onlink dev eth0
ip -n $NODE link set es1a1 addrgenmode none address fe:34:27:1a:42:21 mtu 1500 alias 'edgespan ni 10000000-0000-4000-8000-000000000001 adapter a0000000-0000-4000-8000-000000000001#0 netns=/mnt/netns/web peer=eth0 mac=02:f0:a8:1f:69:9e mtu=1500'
ip -n $NODE link set es1a1 master es1
ip -n $NODE link set es1a1 up
ip -n $NODE link add es1a2 mtu 1500 type veth peer name eth0 mtu 1500 netns $APP_db
ip -n $APP_db link set eth0 address 02:5d:d9:a9:11:71
ip -n $APP_db link set eth0 up
ip -n $APP_db addr add 10.1.0.129/24 dev eth0
ip -n $APP_db route add default via 10.1.0.1 onlink dev eth0
ip -n $APP_db route add 192.0.2.0/24 via 10.1.0.1 onlink dev eth0
ip -n $APP_db route add 203.0.113.0/24 via 10.1.0.1 onlink dev eth0
ip -n $NODE link set es1a2 addrgenmode none address fe:a3:f5:ae:08:c7 mtu 1500 alias 'edgespan ni 10000000-0000-4000-8000-000000000001 adapter a0000000-0000-4000-8000-000000000002#0 netns=/mnt/netns/db peer=eth0 mac=02:5d:d9:a9:11:71 mtu=1500'
ip -n $NODE link set es1a2 master es1
ip -n $NODE link set es1a2 up
ip -n $NODE link add es2a1 mtu 1500 type veth peer name eth1 mtu 1500 netns $APP_web
ip -n $APP_web link set eth1 address 02:37:2e:c5:b4:4e
ip -n $NODE link set es2a1 addrgenmode none address fe:fb:e5:90:d1:75 mtu 1500 alias 'edgespan ni 10000000-0000-4000-8000-000000000002 adapter a0000000-0000-4000-8000-000000000001#1 netns=/mnt/netns/web peer=eth1 mac=02:37:2e:c5:b4:4e mtu=1500'
ip -n $NODE link set es2a1 master es2
ip -n $NODE link set es2a1 up
ip -n $NODE tuntap add vm0 mode tap
ip -n $NODE link set vm0 addrgenmode none address fe:c7:22:48:ef:e0 mtu 1500 alias 'edgespan ni 10000000-0000-4000-8000-000000000002 adapter a0000000-0000-4000-8000-000000000002#1 link=es2a2'
ip -n $NODE link set vm0 master es2
ip -n $NODE link set vm0 up
ip -n $NODE addr add 10.1.0.1/24 dev es1 noprefixroute
ip -n $NODE route add 10.1.0.0/24 dev es1 proto 101 src 10.1.0.1 table 20001
ip -n $NODE route add 192.0.2.0/24 dev uplink0 proto 101 src 192.0.2.2 table 20001
ip -n $NODE route add default via 192.0.2.1 dev uplink0 proto 101 table 20001
ip -n $NODE route add unreachable default proto 101 metric 4294967295 table 20001
ip -n $NODE route add 203.0.113.0/24 via 192.0.2.1 dev uplink0 proto 101 table 20001
ip -n $NODE rule add pref 20001 protocol 101 from 10.1.0.0/24 lookup 20001
ip -n $NODE rule add pref 21001 protocol 101 from all to 10.1.0.0/24 lookup 20001
ip netns exec $NODE sysctl -qw net.ipv4.ip_forward=0
ip netns exec $NODE sysctl -qw net.ipv4.conf.uplink0.forwarding=1
ip netns exec $NODE sysctl -qw net.ipv4.conf.es1.forwarding=1
ip netns exec $NODE sysctl -qw net.ipv4.conf.es2.forwarding=0
ip netns exec $NODE sysctl -qw net.ipv4.conf.es1a1.forwarding=0
ip netns exec $NODE sysctl -qw net.ipv4.conf.es1a2.forwarding=0
ip netns exec $NODE sysctl -qw net.ipv4.conf.es2a1.forwarding=0
ip netns exec $NODE sysctl -qw net.ipv4.conf.vm0.forwarding=0
