package node

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/actors/node/api"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
)

// memStorage is a state folder whose health the test sets.
type memStorage struct {
	health     api.StorageHealth
	watch      []func(api.StorageHealth)
	floor      uint64
	incomplete bool
	lost       []string
}

func (s *memStorage) Watch(f func(api.StorageHealth)) {
	s.watch = append(s.watch, f)
	f(s.health)
}

func (s *memStorage) Floor() uint64 { return s.floor }

func (s *memStorage) MayLackChanges() bool { return s.incomplete }

func (s *memStorage) NoteLost(what string) {
	s.lost, s.incomplete = append(s.lost, what), true
	s.floor += 1000
	s.health.Notes = append(s.health.Notes, what)
}

func (s *memStorage) set(h api.StorageHealth) {
	s.health = h
	for _, f := range s.watch {
		f(h)
	}
}

// The config's status, the events and the doctor report the health of the state folder.
func TestTheStateFolderIsReported(t *testing.T) {
	s := &memStorage{}
	onHost(t, func(r *rig) {
		r.change = func(o *Options) { o.Storage, o.Warning = s, "uid 7 holds the name" }
		r.start()
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		tells := func(want string, events int, problems string) {
			t.Helper()
			var st nodeapi.SourceStatus
			text, err := json.Marshal(r.list("config")[0].Status)
			if err != nil || json.Unmarshal(text, &st) != nil || st.Journal != want ||
				(st.JournalSince != nil) != (want == api.NotJournalled) {
				t.Errorf("the status is %s, want %s", text, want)
			}
			n := 0
			_ = r.node.Events(context.Background(), nodeapi.EventQuery{}, func(e nodeapi.Event) error {
				if e.Kind == nodeapi.EventStorage {
					n++
				}
				return nil
			})
			found, err := r.node.Doctor(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, f := range found {
				if f.Level == nodeapi.Problem && (f.Check == "state" || f.Check == "lock") {
					got += f.Check + " "
				}
			}
			if n != events || got != problems {
				t.Errorf("%d events and problems %q, want %d and %q", n, got, events, problems)
			}
		}
		tells(api.Journalled, 0, "lock ")
		s.set(api.StorageHealth{Fault: "disk full", Since: time.Now(), Unsaved: 1})
		s.set(api.StorageHealth{Fault: "disk full", Since: time.Now(), Unsaved: 2})
		r.settle(0)
		tells(api.NotJournalled, 1, "state lock ")
		s.set(api.StorageHealth{})
		r.settle(0)
		tells(api.Journalled, 2, "lock ")
	})
}

// Values in the journal that can't be decoded don't stop a node from starting. They are set aside, their versions are
// not reused, and no object on the host is recreated.
func TestAJournalThatCanNotBeDecodedIsLostAndNoMore(t *testing.T) {
	onRig(t, func(r *rig) {
		r.host.SetNetns("ns2", true)
		r.apply(doc(1, 2))
		r.ready(time.Second, "ni/"+niID(1))
		without := strings.Split(doc(1, 2), "\n") // without app 1: app 2 keeps its number
		r.apply(strings.Join(slices.DeleteFunc(without, func(line string) bool { return strings.Contains(line, appID(1)) }),
			"\n"))
		r.settle(time.Second)
		record, _ := r.node.Topics().AppRecords.Get("", appID(2))
		leases := r.node.Topics().Leases.List("")
		r.stop()
		for _, topic := range r.journal.Topics() {
			if strings.HasPrefix(topic, "app-record") || strings.HasPrefix(topic, "network-instance") || topic == "node-record" {
				for _, key := range r.journal.Keys(topic) {
					must(r.journal.Put(topic, key, []byte(`{"of": ["a newer release"`)))
				}
			}
		}
		if _, err := api.NewTopics(r.journal, nil); err == nil {
			t.Error("without a Storage it is no error")
		}
		s := &memStorage{}
		r.change = func(o *Options) { o.Storage = s }
		r.host.Done() // what was done once
		r.start()
		r.settle(2 * time.Second)
		r.ready(time.Second, "ni/"+niID(1))
		if got := r.host.Done(); len(got) > 0 {
			t.Errorf("the host was changed: %q", got)
		}
		if len(s.lost) == 0 || len(r.journal.Keys("app-record.unreadable")) != 2 {
			t.Errorf("lost is %q, aside %q", s.lost, r.journal.Keys("app-record.unreadable"))
		}
		if now, _ := r.node.Topics().AppRecords.Get("", appID(2)); now.TargetVersion <= s.floor-1000 ||
			now.TargetVersion == record.TargetVersion {
			t.Errorf("version %d after %d, the floor is %d", now.TargetVersion, record.TargetVersion, s.floor)
		}
		for id, was := range leases {
			now, _ := r.node.Topics().Leases.Get("", id)
			for k, l := range was {
				if l.Gone == 0 && now[k] != l {
					t.Errorf("the lease of %s is %v, was %v", k, now[k], l)
				}
			}
		}
	})
}

// An unreadable slot of the config is copied before it is overwritten.
func TestAConfigThatCanNotBeReadIsSetAside(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		r.stop()
		r.files.SetSlot("confirmed", "garbage")
		r.start()
		r.apply(doc(1, 0))
		r.settle(time.Second)
		if want := []string{"confirmed: garbage"}; !slices.Equal(r.files.Aside(), want) {
			t.Errorf("set aside is %q, want %q", r.files.Aside(), want)
		}
	})
}

// On a disk that refuses writes, the node runs the last good config of an earlier version. The file is kept until the
// config is stored as the confirmed one.
func TestTheLastGoodConfigOfAnEarlierVersionRunsOnADiskThatTakesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		r.stop()
		r.files.Lose()
		r.files.SetLastGood(doc(1, 0))
		r.files.Fail(errors.New("no space left on device"))
		r.start()
		r.ready(time.Second, "ni/"+niID(1))
		if r.lastGood() == nil {
			t.Error("it was removed")
		}
		r.stop()
		r.files.Fail(nil)
		r.start()
		r.ready(time.Second, "ni/"+niID(1))
		if r.lastGood() != nil || r.stored() != canonical(t, doc(1, 0)) {
			t.Errorf("kept is %s", r.stored())
		}
	})
}

// blindHost is a host whose observation fails for some time.
type blindHost struct {
	Host
	left atomic.Int32 // observations that fail
}

func (u *blindHost) Observe(ctx context.Context, o netstate.Owner, full bool) (netstate.State, error) {
	if o.Number > 0 && u.left.Add(-1) >= 0 {
		return nil, errors.New("not now")
	}
	return u.Host.Observe(ctx, o, full)
}

// The node retries the observation of a network whose journal is lost until it succeeds, before it applies anything.
func TestASurveyThatFailsIsTriedAgain(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		r.stop()
		r.journal.Lose("network-instance-leases")
		r.host.Done()
		u := &blindHost{Host: r.host}
		u.left.Store(3)
		r.change = func(o *Options) { o.Storage, o.Host = &memStorage{incomplete: true}, u }
		r.start()
		r.settle(2 * time.Second)
		if u.left.Load() < 0 {
			t.Error("it was looked at more often than once a second")
		}
		r.ready(10*time.Second, "ni/"+niID(1), "app/"+appID(1))
		if got := r.host.Done(); len(got) > 0 {
			t.Errorf("the host was changed: %q", got)
		}
	})
}
