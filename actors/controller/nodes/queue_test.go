package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/nodeproto"
)

// What a node says in its Hello, its reports and its answers to probes is bounded in the words that
// its memory, its standing and its row are made of.
func TestWordsOfANodeAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	r := bounded(nodeproto.Report{
		MD5: long, Peer: long, Generation: nodeproto.Generation{Authority: long},
		Restores: nodeproto.Generation{Authority: long}, Software: long, Firmware: long, Board: long, Source: long,
		Held: &nodeproto.Held{By: long}, Pending: &nodeproto.Pending{Generation: nodeproto.Generation{Authority: long},
			Worse: strings.Split(strings.Repeat("w,", 1000)+long, ",")},
		Parameters: []nodeproto.Parameter{{ID: "a", Generation: nodeproto.Generation{Authority: long}},
			{ID: "b", Detail: "y"}},
	})
	if n := len(storage.Encode(r)); n > 8<<10 || len(r.Parameters) != 1 {
		t.Errorf("a report of %d bytes, %d parameters", n, len(r.Parameters))
	}
	p := boundedProbed(nodeproto.Probed{MD5: long, Peer: long, Generation: nodeproto.Generation{Authority: long},
		Worse: []string{long}})
	h := boundedHello(nodeproto.Hello{Software: long, Firmware: long, Board: long})
	if n := len(storage.Encode(p)) + len(storage.Encode(h)); n > 4<<10 {
		t.Errorf("a Hello and an answer to a probe of %d bytes", n)
	}
	held, worse := nodeproto.Held{By: "eva"}, []string{"uplink"}
	mine := nodeproto.Report{
		MD5: strings.Repeat("a", 32), Peer: strings.Repeat("b", 64),
		Generation: nodeproto.Generation{Authority: "6b1e0c1a-0000-4000-8000-000000000001", Counter: 3},
		Software:   "RELEASE_M20",
		Held:       &held, Pending: &nodeproto.Pending{Worse: worse}, Parameters: []nodeproto.Parameter{{ID: "a"}},
	}
	if string(storage.Encode(bounded(mine))) != string(storage.Encode(mine)) {
		t.Errorf("an honest report became %s", storage.Encode(bounded(mine)))
	}
	for text, want := range map[string]bool{strings.Repeat("0", 32): true, "d41d8cd98f00b204e9800998ecf8427e": true,
		"": false, strings.Repeat("A", 32): false, strings.Repeat("a", 33): false} {
		if isMD5(text) != want || (answers(nodeproto.Result{MD5: text}) == fleet.Digest{}) == want {
			t.Errorf("%q is an MD5: %v", text, !want)
		}
	}
}

// While the memory of a node is not known yet, what it says is not kept without end.
func TestWhatWaitsForTheMemoryIsBounded(t *testing.T) {
	n := &node{}
	for i := range 1000 {
		n.early(Said{Word: nodeproto.Report{Software: fmt.Sprint(i)}})
		n.early(Said{Word: nodeproto.Result{Attempt: uint64(i)}})
	}
	n.early(Wanted{})
	reports, results := 0, 0
	for _, m := range n.before {
		switch w := m.(type) {
		case Said:
			if rep, is := w.Word.(nodeproto.Report); is {
				if reports++; rep.Software != "999" {
					t.Errorf("the report of %s", rep.Software)
				}
			} else {
				results++
			}
		}
	}
	if reports != 1 || results == 0 || len(n.before) > mostSaid+2 {
		t.Errorf("%d reports, %d results, %d messages", reports, results, len(n.before))
	}
}

// While the store takes its time, no more than a handful of effects waits, and all of them for the
// newest memory.
func TestWhatWaitsForTheStoreIsBounded(t *testing.T) {
	n := &node{unstored: unstored{saving: []byte("x")}, on: "s"}
	for i := range uint64(1000) {
		for _, e := range []any{
			fleet.Save{Memory: fleet.Memory{Floor: i}}, ack{attempt: i}, ack{attempt: i},
			fleet.SetTimer{At: time.Unix(int64(i), 0)},
			fleet.Push{Attempt: i, Whole: true}, fleet.Push{Generation: fleet.Generation{Counter: i}}, fleet.Probe{Probe: i},
			fleet.Tell{Managed: i%2 == 0},
		} {
			n.plan(e)
		}
	}
	if len(n.todo) != 6+mostSaid {
		t.Errorf("%d wait", len(n.todo))
	}
	if s, is := n.todo[0].effect.(fleet.Save); !is || s.Memory.Floor != 999 {
		t.Errorf("the first one is %+v", n.todo[0].effect)
	}
	acks := 0
	for _, one := range n.todo {
		switch e := one.effect.(type) {
		case ack:
			acks++
			if e.attempt < 1000-mostSaid {
				t.Errorf("attempt %d is acknowledged", e.attempt)
			}
		case fleet.Push:
			if e.Whole && e.Attempt != 999 || !e.Whole && e.Generation.Counter != 999 {
				t.Errorf("%+v waits", e)
			}
		}
	}
	if acks != mostSaid {
		t.Errorf("%d acknowledgements wait", acks)
	}
}
