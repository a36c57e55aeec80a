// Package bench measures the real daemon beside a floor: a program of ours that
// asks the kernel, iptables-restore and dnsmasq for the same with nothing around it.
// Both run in one benchmark, in turns, each in namespaces of its own, and the
// result is their ratio.
//
// Beside its peers, other programs that make networks, it is measured where they are
// installed; such a benchmark is skipped with its reason where they are not.
//
// It never judges: a benchmark fails only where the work was not done.
package bench
