// Package manager is the pure core of one bridge manager: the state machine (Manager) that takes the config, adapters
// and ports of one network instance, wants an apply of netinst.DesiredState, and says what became of it. It owns when
// the host is looked at and tried again, what drifted, what an app was seen to use, and the statuses of network and
// adapters.
//
// It never touches the host, a clock or a random source: time and observations arrive as fields of events, what is to
// be done leaves as effects. What a network wants on the host is netinst's.
//
// Read first: events.go, then manager.go; manager_test.go says every behaviour as a sentence.
package manager
