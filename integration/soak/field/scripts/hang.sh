#!/bin/sh
# Stands before a command, under its name: it hangs while a file of that name exists, for a minute at most, and then is
# the command. So a command that hangs goes on once the fault has ended.
name=${0##*/}
for second in $(seq 60); do
	[ -e "${SOAK_HANG:-/run/soak-hang}/$name" ] || break
	sleep 1
done
exec "${SOAK_SBIN:-/usr/sbin}/$name" "$@"
