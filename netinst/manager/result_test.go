package manager

import (
	"testing"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// A failure was shown at one of the two by chance, as the replay of a recording has found.
func TestTheObjectsOfTwoAdaptersAreOfTheOneThatStays(t *testing.T) {
	key := func(n byte) netinst.AdapterKey { return netinst.AdapterKey{AppUUID: uuid.UUID{15: n}} }
	link := netstate.ID{Kind: netstate.KindLink, Name: "es1n2"}
	for range 50 {
		f := flight{versions: map[netinst.AdapterKey]netinst.AppAdapterConfig{}}
		f.desired.ByAdapter = map[netinst.AdapterKey][]netstate.ID{}
		for n := range byte(5) {
			f.desired.ByAdapter[key(n)] = []netstate.ID{link}
			f.versions[key(n)] = netinst.AppAdapterConfig{Activate: n == 2}
		}
		if got := f.owners()[link]; got != key(2) {
			t.Fatalf("it is of %v, which leaves", got)
		}
		f.versions[key(2)] = netinst.AppAdapterConfig{}
		if got := f.owners()[link]; got != key(4) {
			t.Fatalf("of many that leave it is of %v", got)
		}
	}
}
