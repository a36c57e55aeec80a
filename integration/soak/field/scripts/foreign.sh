#!/bin/sh
# Prints what up.sh has made and other programs own, without counters.
ip -o addr show dev foreign0 | sed 's/valid_lft.*//'
ip -o link show dev foreign0 | grep -o 'link/ether.*'
ip route show table 4242
ip rule show | grep 4242
iptables -S FOREIGN
iptables -S FORWARD | grep -c -- '-j FOREIGN'
nft -s list table ip foreign
