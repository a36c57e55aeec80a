package appnet_test

import (
	"fmt"
	"slices"
	"testing"

	"edgespan/appnet"
)

func TestTheOldestOfTooManyDeletedAppsAreForgotten(t *testing.T) {
	records := map[string]appnet.JournalRecord{"living": {TargetVersion: 9}}
	for i := range 1002 {
		records[fmt.Sprint("app", i)] = appnet.JournalRecord{TargetVersion: 1, Deleted: true, Order: uint64(5000 - i)}
	}
	if got := appnet.ToForget(records); !slices.Equal(got, []string{"app1001", "app1000"}) {
		t.Errorf("forgotten are %v", got)
	}
	delete(records, "app0")
	delete(records, "app1")
	if got := appnet.ToForget(records); len(got) > 0 {
		t.Errorf("forgotten are %v of as many as may be", got)
	}
}

// The order of a deletion is recorded once, with the deletion; later records have none.
func TestADeletionIsRecordedWithItsOrder(t *testing.T) {
	m := appnet.NewMachine(web, appnet.JournalRecord{}, nil)
	var got []string
	for _, e := range []appnet.Event{
		appnet.Synchronized{}, on(blue), appnet.ConfigDeleted{Order: 7}, appnet.ConfigDeleted{Order: 8}, on(blue),
		appnet.ConfigDeleted{Order: 9},
	} {
		for _, f := range m.Step(e) {
			if r, ok := f.(appnet.Record); ok {
				got = append(got, fmt.Sprintf("v%d %v %d", r.Journal.TargetVersion, r.Journal.Deleted, r.Journal.Order))
			}
		}
	}
	if want := []string{"v1 false 0", "v1 true 7", "v2 false 0", "v2 true 9"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Numbers up to a floor may have been used without being written: only a record at or above it still counts.
func TestARecordBelowTheFloorCountsNoConfig(t *testing.T) {
	r := appnet.JournalRecord{TargetVersion: 7, Digest: "d"}
	for floor, want := range map[uint64]appnet.JournalRecord{0: r, 6: r, 7: r, 8: {TargetVersion: 8}} {
		if got := r.Above(floor); got != want {
			t.Errorf("above %d: %+v, want %+v", floor, got, want)
		}
	}
}
