package staged

import (
	"fmt"
	"testing"
)

// What nodes bring about pushes no operator's rollout out of those that are kept.
func TestWhichRolloutsAreKept(t *testing.T) {
	const itself = "controller"
	kept := map[uint64]*RolloutRecord{}
	var now *RolloutRecord
	surplus := func() []uint64 {
		return SurplusRollouts(kept, now, func(author string) bool { return author == itself })
	}
	for number := uint64(1); number <= 100; number++ {
		by := itself
		if number%20 == 0 || number > 94 {
			by = "alice"
		}
		now = &RolloutRecord{Revision: number, Author: by}
		for _, old := range surplus() {
			delete(kept, old)
		}
		kept[number] = now
		if _, has := kept[20]; !has && number >= 20 && number < 99 {
			t.Fatalf("alice's is gone by revision %d", number)
		}
	}
	people := 0
	for _, s := range kept {
		if s.Author == "alice" {
			people++
		}
	}
	if len(kept) != 2*maxStaged || people != maxStaged {
		t.Errorf("%d are kept, %d of people", len(kept), people)
	}
	if _, has := kept[20]; !has || fmt.Sprint(surplus()) != "[]" {
		t.Errorf("surplus %v", surplus())
	}
}
