#!/bin/sh
# Installs a release of the daemon as an operator would: programs, unit, users. $1 is the folder of the release, $2 the
# flags of the daemon.
set -eu
cp "$1/edgespan" /usr/bin/edgespan.new
mv /usr/bin/edgespan.new /usr/bin/edgespan
install -m 644 "$1/edgespan.service" /etc/systemd/system/edgespan.service
sh "$1/setup.sh"
echo "EDGESPAN_NODE_FLAGS=$2" >/etc/default/edgespan
# Commands that can hang: /usr/local is searched first.
for name in iptables-restore ip6tables-restore ipset nft conntrack; do
	install -m 755 "${0%/*}/hang.sh" "/usr/local/sbin/$name"
done
systemctl daemon-reload
systemctl enable -q edgespan.service
systemctl restart edgespan.service
