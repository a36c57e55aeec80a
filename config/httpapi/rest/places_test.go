package rest

import (
	"fmt"
	"strings"
	"testing"
)

// Each caller has a share of all places, and readers and machines together leave some to staff.
func TestPlacesOfEachCaller(t *testing.T) {
	for n, want := range map[int]struct{ each, others int }{1: {1, 1}, 64: {16, 56}, 256: {64, 224}, 1024: {256, 896}} {
		for _, v := range []Via{ViaToken, ViaCertificate} {
			p := NewPlaces(n)
			fill := func(h Holder) (held []func(), reported string) {
				for {
					release, err := p.Acquire(h, "requests")
					if err != nil {
						return held, err.Error()
					}
					held = append(held, release)
				}
			}
			held, reported := fill(HolderOf("v0", Viewer, v))
			if len(held) != want.each || n > 1 && !strings.Contains(reported, "requests of the same caller") {
				t.Errorf("of %d places one has %d: %s", n, len(held), reported)
			}
			for i := range 10 {
				more, why := fill(HolderOf(fmt.Sprint("v", i+1), Viewer, v))
				held, reported = append(held, more...), why
			}
			if len(held) != want.others || reported != fmt.Sprintf("%d requests are under way already", want.others) {
				t.Errorf("of %d places all readers have %d: %s", n, len(held), reported)
			}
			staff, _ := fill(HolderOf("ann", Operator, ViaToken))
			if len(staff) != n-want.others {
				t.Errorf("of %d places staff has %d beside them", n, len(staff))
			}
			for _, release := range append(held, staff...) {
				release()
			}
			if p.all.all != 0 || p.others.all != 0 || len(p.all.of)+len(p.others.of) != 0 {
				t.Errorf("%v and %v are held", p.all.of, p.others.of)
			}
		}
	}
}
