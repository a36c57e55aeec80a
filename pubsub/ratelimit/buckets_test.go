package ratelimit

import (
	"fmt"
	"testing"
	"time"
)

func TestBucketsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := NewBuckets(1, 2)
	for i := range 3 * maxNames {
		b.Allow(fmt.Sprint(i), now)
	}
	if len(b.have) > maxNames {
		t.Errorf("%d are remembered", len(b.have))
	}
	b = NewBuckets(1, 2)
	b.Allow("busy", now)
	b.Allow("busy", now)
	for i := range maxNames - 1 {
		b.Allow(fmt.Sprint(i), now.Add(-time.Hour))
	}
	if b.Allow("new", now); b.Allow("busy", now) == 0 {
		t.Error("one who has nothing left is forgotten while others are full")
	}
}

func TestABucketOfMany(t *testing.T) {
	t.Parallel()
	now := time.Unix(1<<30, 0)
	for _, one := range []struct {
		sentence string
		spend    []int
		after    time.Duration
		want     time.Duration // that the next one waits
	}{
		{"it is full at first", nil, 0, 0},
		{"all of it at once", []int{9}, 0, 0},
		{"and then as many as come back", []int{10}, 0, 500 * time.Millisecond},
		{"which they do", []int{10}, 500 * time.Millisecond, 0},
		{"what is not there is owed", []int{9, 5}, 0, 2500 * time.Millisecond},
		{"also where it is more than a bucket holds", []int{35}, 0, 13 * time.Second},
		{"one that has to wait takes nothing", []int{10, 100, 100}, 0, 500 * time.Millisecond},
		{"what is given back is there", []int{35, -30}, 0, 0},
		{"and is no more than a bucket holds", []int{5, -30, 10}, 0, 500 * time.Millisecond},
		{"nor is what comes with time", []int{10, 0, 0}, time.Hour, 0},
	} {
		b := NewBuckets(2, 10)
		for _, n := range one.spend {
			b.AllowN("a", now, n)
		}
		at := now.Add(one.after)
		if got := b.WaitTime("a", at); got != one.want {
			t.Errorf("%s: the next one waits %v, want %v", one.sentence, got, one.want)
		}
		if got := b.Allow("a", at); got != one.want {
			t.Errorf("%s: it is told to wait %v, want %v", one.sentence, got, one.want)
		}
		if b.WaitTime("b", at) > 0 || b.Allow("b", at) > 0 {
			t.Errorf("%s: another name waits", one.sentence)
		}
	}
}

func TestADebtHasABound(t *testing.T) {
	t.Parallel()
	b, now := NewBuckets(1, 2), time.Unix(1<<30, 0)
	for range 100 {
		b.AllowDebt("a", now, 10)
	}
	if got := b.WaitTime("a", now); got != 11*time.Second {
		t.Errorf("it waits %v, want that of ten owed", got)
	}
	if NewBuckets(1, 0).Allow("a", now) > 0 {
		t.Error("a bucket that holds less than one token is for nobody")
	}
}
