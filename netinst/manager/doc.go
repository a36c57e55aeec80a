// Package manager is the pure core of one bridge manager: the state machine (Manager) that takes the config, adapters
// and ports of one network instance, requests an apply of netinst.DesiredState, and reports the result. It owns the
// times at which the host is observed and an apply is retried, the drift, the addresses observed on apps' links, and
// the statuses of the network and its adapters.
//
// It never touches the host, a clock or a random source: time and observations arrive as fields of events, actions
// leave as effects. It does not compute the desired state of a network: netinst does.
//
// Read events.go first, then manager.go; manager_test.go states every behaviour as a sentence.
package manager
