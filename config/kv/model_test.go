package kv

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// teller runs operations on a model and tells what comes of them in words.
type teller struct {
	t   *testing.T
	m   *Model
	now time.Time
}

func (s *teller) commit(txn Txn) string {
	out, err := s.m.Commit(txn)
	if err != nil {
		return "refused: " + reason(err)
	}
	words := []string{fmt.Sprintf("%d %v", out.Revision, out.Succeeded)}
	for _, r := range out.Results {
		switch {
		case r.Entry.Exists():
			words = append(words, inWords(r.Entry))
		case r.Deleted > 0:
			words = append(words, fmt.Sprintf("-%d", r.Deleted))
		default:
			words = append(words, ".")
		}
	}
	return strings.Join(words, " ")
}

func inWords(e Entry) string {
	return fmt.Sprintf("%s=%s@%d v%d", e.Key, e.Value, e.ModRevision, e.Version)
}

func reason(err error) string {
	for _, now := range []error{ErrInvalid, ErrTooLarge, ErrCompacted, ErrFuture, ErrNoLease} {
		if errors.Is(err, now) {
			return now.Error()
		}
	}
	return err.Error()
}

func (s *teller) list(p Prefix, o ListOptions) string {
	page, err := s.m.List(p, o)
	if err != nil {
		return reason(err)
	}
	words := []string{fmt.Sprint(page.Revision)}
	for _, e := range page.Entries {
		words = append(words, inWords(e))
	}
	if page.More {
		words = append(words, "…")
	}
	return strings.Join(words, " ")
}

func (s *teller) since(p Prefix, after Revision) string {
	batches, err := s.m.Since(p, after)
	if err != nil {
		return reason(err)
	}
	var words []string
	for _, b := range batches {
		word := fmt.Sprintf("%d:", b.Revision)
		for _, e := range b.Events {
			word += fmt.Sprintf(" %s %s", e.Kind, e.Entry.Key)
		}
		words = append(words, word)
	}
	return strings.Join(words, "; ")
}

func put(k Key, v string) Txn { return Txn{Then: []Op{Put(k, []byte(v))}} }

func (s *teller) is(what, got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func story(t *testing.T) *teller {
	return &teller{t: t, m: NewModel(), now: time.Unix(1000, 0)}
}

func TestModelTransactions(t *testing.T) {
	s := story(t)
	s.is("the first", s.commit(put("a", "1")), "1 true .")
	s.is("a write counts", s.commit(put("a", "2")), "2 true .")
	s.is("a compare that fails",
		s.commit(Txn{Compares: []Compare{AtRevision("a", 1)}, Then: []Op{Put("a", nil)}, Else: []Op{Get("a")}}), "2 false a=2@2 v2")
	s.is("one of two compares fails",
		s.commit(Txn{Compares: []Compare{AtRevision("a", 2), Exists("b")}, Then: []Op{Put("a", nil)}}), "2 false")
	s.is("a get sees what its transaction wrote", s.commit(Txn{Then: []Op{Get("b"), Put("b", []byte("x")), Get("b")}}),
		"3 true . . b=x@3 v1")
	s.is("a delete of nothing is no revision", s.commit(Txn{Then: []Op{Delete("c"), DeletePrefix("c/")}}), "3 true . .")
	s.is("a delete", s.commit(Txn{Then: []Op{Delete("a")}}), "4 true -1")
	s.is("versions begin again", s.commit(put("a", "3")), "5 true .")
	s.is("below", s.commit(Txn{Then: []Op{Put("n/1", nil), Put("n/2", nil), Put("n1", nil)}}), "6 true . . .")
	s.is("delete below", s.commit(Txn{Then: []Op{DeletePrefix("n/")}}), "7 true -2")
	s.is("what is left", s.list("", ListOptions{}), "7 a=3@5 v1 b=x@3 v1 n1=@6 v1")
	s.is("refused whole", s.commit(Txn{Then: []Op{Put("q", nil), Put("r//", nil)}}), "refused: invalid")
	s.is("nothing of it", s.list("", ListOptions{After: "n1"}), "7")
}

func TestModelListsAtARevision(t *testing.T) {
	s := story(t)
	for _, k := range []Key{"n/1", "n/2", "n/3", "m"} {
		s.commit(put(k, "a"))
	}
	s.commit(Txn{Then: []Op{Delete("n/2"), Put("n/4", nil)}})
	s.is("now", s.list("n/", ListOptions{}), "5 n/1=a@1 v1 n/3=a@3 v1 n/4=@5 v1")
	s.is("then", s.list("n/", ListOptions{At: 4}), "4 n/1=a@1 v1 n/2=a@2 v1 n/3=a@3 v1")
	s.is("a page", s.list("n/", ListOptions{At: 4, Limit: 2}), "4 n/1=a@1 v1 n/2=a@2 v1 …")
	s.is("the rest", s.list("n/", ListOptions{At: 4, Limit: 2, After: "n/2"}), "4 n/3=a@3 v1")
	s.is("just full", s.list("n/", ListOptions{At: 4, Limit: 3}), "4 n/1=a@1 v1 n/2=a@2 v1 n/3=a@3 v1")
	s.is("the future", s.list("n/", ListOptions{At: 6}), "revision is not reached")
	s.is("after what is not below", s.list("n/", ListOptions{After: "m"}), "invalid")
	s.is("a negative limit", s.list("n/", ListOptions{Limit: -1}), "invalid")
}

func TestModelWatchesAndCompacts(t *testing.T) {
	s := story(t)
	s.commit(put("n/1", "a"))
	s.commit(Txn{Then: []Op{Put("m", nil), Put("n/2", nil)}})
	s.commit(Txn{Then: []Op{DeletePrefix("n/")}})
	s.commit(put("m", "b"))
	s.is("all", s.since("", 0), "1: put n/1; 2: put m put n/2; 3: delete n/1 delete n/2; 4: put m")
	s.is("below, after", s.since("n/", 1), "2: put n/2; 3: delete n/1 delete n/2")
	s.is("nothing new", s.since("n/", 4), "")
	s.is("the future", s.since("n/", 5), "revision is not reached")
	if err := s.m.Compact(5); !errors.Is(err, ErrFuture) {
		t.Errorf("compact the future: %v", err)
	}
	for range 2 { // the second is nothing new
		if err := s.m.Compact(3); err != nil {
			t.Fatal(err)
		}
	}
	s.is("what was forgotten", s.since("", 1), "revision is compacted")
	s.is("the last one kept", s.since("", 2), "3: delete n/1 delete n/2; 4: put m")
	s.is("a read before", s.list("", ListOptions{At: 2}), "revision is compacted")
	s.is("a read at it", s.list("", ListOptions{At: 3}), "3 m=@2 v1")
	if err := s.m.Compact(4); err != nil {
		t.Fatal(err)
	}
	if len(s.m.versions) != 1 || len(s.m.versions["m"]) != 1 {
		t.Errorf("compaction kept %v", s.m.versions)
	}
}

func TestModelLeases(t *testing.T) {
	s := story(t)
	id, err := s.m.Grant(s.now, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	s.is("under a lease",
		s.commit(Txn{Then: []Op{PutLeased("b", nil, id), PutLeased("a", nil, id), PutLeased("c", nil, id)}}), "1 true . . .")
	s.is("a write without it lets go", s.commit(put("c", "x")), "2 true .")
	if keys, _ := s.m.Keys(id); fmt.Sprint(keys) != "[a b]" {
		t.Errorf("keys of the lease: %v", keys)
	}
	s.now = s.now.Add(9 * time.Second)
	if ttl, err := s.m.KeepAlive(s.now, id); err != nil || ttl != 10*time.Second {
		t.Errorf("keep alive: %v %v", ttl, err)
	}
	s.now = s.now.Add(9 * time.Second)
	if ended := s.m.Expire(s.now); ended != nil {
		t.Errorf("ended before its time: %v", ended)
	}
	s.now = s.now.Add(time.Second)
	if ended := s.m.Expire(s.now); fmt.Sprint(ended) != "[1]" {
		t.Errorf("not ended in time: %v", ended)
	}
	s.is("its keys went in one revision", s.since("", 2), "3: delete a delete b")
	s.is("a lease that ended", s.commit(Txn{Then: []Op{PutLeased("a", nil, id)}}), "refused: no such lease")
	s.is("only the branch taken counts", s.commit(Txn{Then: []Op{Get("c")}, Else: []Op{PutLeased("a", nil, id)}}),
		"3 true c=x@2 v2")
	if _, err := s.m.KeepAlive(s.now, id); !errors.Is(err, ErrNoLease) {
		t.Errorf("keep alive what ended: %v", err)
	}
	if err := s.m.Revoke(id); !errors.Is(err, ErrNoLease) {
		t.Errorf("revoke what ended: %v", err)
	}
	if _, err := s.m.Keys(id); !errors.Is(err, ErrNoLease) {
		t.Errorf("keys of what ended: %v", err)
	}
	for _, ttl := range []time.Duration{0, time.Second, 2500 * time.Millisecond, MaxTTL + time.Second} {
		if _, err := s.m.Grant(s.now, ttl); !errors.Is(err, ErrInvalid) {
			t.Errorf("granted %s: %v", ttl, err)
		}
	}
}

func TestModelElections(t *testing.T) {
	s := story(t)
	one, _ := s.m.Grant(s.now, MinTTL)
	two, _ := s.m.Grant(s.now, 60*time.Second)
	won, _ := s.m.Commit(Campaign("leader", []byte("one"), one))
	lead, _, ok := ReadCampaign("leader", won)
	if !ok || lead.Revision != 1 {
		t.Fatalf("the first candidate did not win: %v", won)
	}
	lost, _ := s.m.Commit(Campaign("leader", []byte("two"), two))
	if _, who, ok := ReadCampaign("leader", lost); ok || string(who.Value) != "one" {
		t.Fatalf("two leaders: %v", who)
	}
	fenced := Txn{Compares: []Compare{lead.Fence()}, Then: []Op{Put("x", nil)}}
	s.is("the leader writes", s.commit(fenced), "2 true .")
	s.m.Expire(s.now.Add(MinTTL))
	s.is("not once its lease is over", s.commit(fenced), "3 false")
	next, _ := s.m.Commit(Campaign("leader", []byte("two"), two))
	after, _, _ := ReadCampaign("leader", next)
	s.is("nor while another leads", s.commit(fenced), "4 false")
	s.is("nor does it end the other's", s.commit(resign(lead)), "4 false")
	s.is("the other resigns", s.commit(resign(after)), "5 true -1")
}

// resign gives a leadership up, and leaves that of a successor alone.
func resign(l Leadership) Txn {
	return Txn{Compares: []Compare{l.Fence()}, Then: []Op{Delete(l.Key)}}
}
