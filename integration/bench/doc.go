// Package bench compares the daemon with a floor: a minimal program that makes the same requests to the kernel,
// iptables-restore and dnsmasq. Both run alternately in one benchmark, each in its own network namespaces, and the
// result is their ratio.
//
// Other programs that create networks are measured as well if they are installed; otherwise their benchmarks are
// skipped with the reason.
//
// The throughput of packets is compared with that of a single network, of the same policy written by hand, and of a
// host without rules.
//
// It never fails because of a result: a benchmark fails only if the work was not done.
package bench
