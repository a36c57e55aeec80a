#!/bin/sh
# Installs a release of the daemon as an operator would: programs, unit, users. $1 is the folder of the release, $2 the
# flags of the daemon.
set -eu
cp "$1/edgespan" /usr/bin/edgespan.new
mv /usr/bin/edgespan.new /usr/bin/edgespan
install -m 644 "$1/edgespan.service" /etc/systemd/system/edgespan.service
sh "$1/setup.sh"
echo "EDGESPAN_NODE_FLAGS=$2" >/etc/default/edgespan
# A command of one of these names hangs while a file of the name exists: /usr/local is searched first.
for name in iptables-restore ip6tables-restore ipset nft conntrack; do
	cat >"/usr/local/sbin/$name" <<END
#!/bin/sh
[ ! -e /run/soak-hang/$name ] || sleep 60
exec /usr/sbin/$name "\$@"
END
	chmod 755 "/usr/local/sbin/$name"
done
systemctl daemon-reload
systemctl enable -q edgespan.service
systemctl restart edgespan.service
