package api

import (
	"errors"
	"testing"

	"edgespan/appnet"
	"edgespan/netinst"
)

// forgetful is a journal that keeps nothing.
type forgetful struct{}

func (forgetful) Load(string) (map[string][]byte, error) { return nil, nil }
func (forgetful) Put(string, string, []byte) error       { return nil }
func (forgetful) Delete(string, string) error            { return nil }

type nobodyDown struct{}

func (nobodyDown) List() []ActorState             { return nil }
func (nobodyDown) Down(string) (ActorState, bool) { return ActorState{}, false }

// Config and status of a network or an app go before the last of it, and its name goes with them: what is named is
// absent only once nothing is left that has no name.
func TestANameIsAbsentOnceNothingNamelessIsLeft(t *testing.T) {
	t.Parallel()
	const id = "10000000-0000-4000-8000-000000000001"
	topics, err := NewTopics(forgetful{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &Reader{Topics: topics, Actors: nobodyDown{}, Settled: func() bool { return true },
		Host: func() string { return "" }}
	absent := func(want bool, when string) {
		t.Helper()
		for _, kind := range []string{"ni", "app"} {
			if got, err := r.Ready(t.Context(), kind, "demo"); err != nil || got.Absent != want || got.Ready {
				t.Errorf("%s: %s/demo: %+v, %v", when, kind, got, err)
			}
		}
	}
	numbers, adapters := topics.Numbers.Publisher("test"), topics.AdapterConfig.Publisher("test")
	status, apps := topics.NetworkStatus.Publisher("test"), topics.AppStatus.Publisher("test")
	absent(true, "nothing is there")
	if err := errors.Join(numbers.Publish("", id, 1), adapters.Publish(id, id+"#0", netinst.AppAdapterConfig{}),
		status.Publish("", id, netinst.NetworkInstanceStatus{}),
		apps.Publish("", id, appnet.AppNetworkStatus{})); err != nil {
		t.Fatal(err)
	}
	absent(true, "others are there, and listed with their names")
	if err := errors.Join(status.Unpublish("", id), apps.Unpublish("", id)); err != nil {
		t.Fatal(err)
	}
	absent(false, "something of a name that is gone is left")
	if err := errors.Join(numbers.Unpublish("", id), adapters.Unpublish(id, id+"#0")); err != nil {
		t.Fatal(err)
	}
	absent(true, "all of it is gone")
}
