package etcd

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"edgespan/config/kv"
	"edgespan/platform/store/etcd/etcdtest"
)

// A cluster over its quota counts as full until a write succeeds, or a member reports that the alarm is off. It may
// have done the write that it refused.
func TestAClusterWithoutRoomIsNotSound(t *testing.T) {
	var s Store
	refuse := func() {
		if err := s.meaning(t.Context(), rpctypes.ErrNoSpace); !errors.Is(err, kv.ErrFull) ||
			errors.Is(err, kv.ErrUnwritten) || !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Errorf("got %v", err)
		}
	}
	sound := func(want bool, when string) {
		t.Helper()
		if err := s.CheckWritable(); (err == nil) != want || !want && !errors.Is(err, kv.ErrFull) {
			t.Errorf("%s: %v", when, err)
		}
	}
	before := time.Now()
	refuse()
	sound(false, "refused")
	s.alarmed(before, false)
	sound(false, "an answer to a question of before")
	s.alarmed(time.Now(), false)
	sound(true, "a member says that there is room")
	s.alarmed(time.Now(), true)
	sound(false, "a member says that there is none")
	s.noteSpace()
	sound(true, "after a write")
}

// What a full cluster still accepts is no sign of room.
func TestReadsAndDeletesDoNotMakeAFullClusterSound(t *testing.T) {
	t.Parallel()
	server, err := etcdtest.Serve(t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s, err := Open(t.Context(), Options{Endpoints: []string{server.Endpoint}, Fleet: "full"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	do := func(ops ...kv.Op) error {
		_, err := s.Commit(t.Context(), kv.Txn{Then: ops})
		return err
	}
	if err := do(kv.Put("a", nil), kv.Put("b", nil)); err != nil {
		t.Fatal(err)
	}
	alarm := func(action etcdserverpb.AlarmRequest_AlarmAction) {
		status, err := s.client.Status(t.Context(), server.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		request := &etcdserverpb.AlarmRequest{Action: action, MemberID: status.Header.MemberId,
			Alarm: etcdserverpb.AlarmType_NOSPACE}
		if _, err := etcdserverpb.NewMaintenanceClient(s.client.ActiveConnection()).Alarm(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	until := func(sound bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); (s.CheckWritable() == nil) != sound; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("it says %v", s.CheckWritable())
			}
		}
	}
	alarm(etcdserverpb.AlarmRequest_ACTIVATE)
	until(false) // this process has written nothing
	if err := do(kv.Put("c", nil)); !errors.Is(err, kv.ErrFull) {
		t.Errorf("a put: %v", err)
	}
	if err := do(kv.Delete("a")); err != nil {
		t.Error(err)
	}
	if err := do(kv.Get("b")); err != nil {
		t.Error(err)
	}
	if s.CheckWritable() == nil {
		t.Error("a delete and a read make it sound")
	}
	alarm(etcdserverpb.AlarmRequest_DEACTIVATE)
	until(true)
}

// A member that accepts a connection and does not answer does not use up the time of the others.
func TestEachMemberHasItsOwnTimeToSayItsSize(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	s := opened(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*weighing)
	defer cancel()
	if size, err := s.sizeOf(ctx, []string{"http://" + deaf.Addr().String(), endpoint()}); err != nil || size <= 0 {
		t.Errorf("%d, %v", size, err)
	}
}

// A member reports its limit and how near it is: the store is scarce before it is full. A report expires.
func TestAClusterThatNearsItsLimitIsScarce(t *testing.T) {
	t.Parallel()
	const gb = 1 << 30
	for name, one := range map[string]struct {
		of   size
		ago  time.Duration
		want bool
	}{
		"half":                     {of: size{used: gb, file: gb, limit: 2 * gb}},
		"three quarters in use":    {of: size{used: gb + gb/2, file: gb + gb/2, limit: 2 * gb}, want: true},
		"a file of free pages":     {of: size{used: gb / 2, file: gb + gb/2, limit: 2 * gb}},
		"a file near the limit":    {of: size{used: gb / 2, file: 2*gb - 1, limit: 2 * gb}, want: true},
		"a limit that is not said": {of: size{used: 2 * gb, file: 2 * gb}},
		"long ago":                 {of: size{used: 2 * gb, file: 2 * gb, limit: 2 * gb}, ago: time.Hour},
	} {
		var s Store
		s.noteSize("m1", time.Now(), size{used: 1, file: 1, limit: 2 * gb})
		s.noteSize("m2", time.Now().Add(-one.ago), one.of)
		if err := s.CheckSpace(); (err != nil) != one.want {
			t.Errorf("%s: %v", name, err)
		}
		s.noteSize("m2", time.Now(), size{used: 1, file: 1, limit: 2 * gb})
		if err := s.CheckSpace(); err != nil {
			t.Errorf("%s, and then none: %v", name, err)
		}
	}
}
