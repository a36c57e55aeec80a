#!/bin/sh
# Fuzzes each target of the module for the time given (a Go duration), one after the
# other: go test takes one target of one package at a time.
set -eu

time=${1:-10s}
go=${GO:-go}

found=0
for dir in $("$go" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./...); do
	for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | awk '{print $2}' | sort -u); do
		found=$((found + 1))
		echo "== $dir $target"
		"$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir"
	done
done
if [ "$found" = 0 ]; then
	echo 'fuzz: no target is found' >&2
	exit 1
fi
