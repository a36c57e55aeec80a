package rollouts

import (
	"edgespan/actors/controller/storage"
	"fmt"
	"testing"
)

// What nodes bring about pushes no operator's rollout out of those that are kept.
func TestWhichRolloutsAreKept(t *testing.T) {
	a := &rolloutActor{kept: map[uint64]*Record{}}
	for number := uint64(1); number <= 100; number++ {
		by := storage.Itself.Name
		if number%20 == 0 || number > 94 {
			by = "alice"
		}
		a.now = &Record{Revision: number, Author: by}
		for _, old := range a.surplus() {
			delete(a.kept, old)
		}
		a.kept[number] = a.now
		if _, has := a.kept[20]; !has && number >= 20 && number < 99 {
			t.Fatalf("alice's is gone by revision %d", number)
		}
	}
	people := 0
	for _, s := range a.kept {
		if s.Author == "alice" {
			people++
		}
	}
	if len(a.kept) != 2*maxStaged || people != maxStaged {
		t.Errorf("%d are kept, %d of people", len(a.kept), people)
	}
	if _, has := a.kept[20]; !has || fmt.Sprint(a.surplus()) != "[]" {
		t.Errorf("surplus %v", a.surplus())
	}
}
