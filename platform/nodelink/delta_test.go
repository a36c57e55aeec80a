package nodelink

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"edgespan/config/fleet/nodeproto"
	pb "edgespan/platform/nodelink/linkpb"
)

func manyParameters(n int) nodeproto.Report {
	r := nodeproto.Report{MD5: "m",
		Generation: nodeproto.Generation{Authority: "0f0e0d0c-0000-4000-8000-000000000001", Counter: 7}}
	for i := range n {
		id := fmt.Sprintf("tunnel/0a000000-0000-4000-8000-%012d/1b000000-0000-4000-8000-%012d", i, i)
		r.Parameters = append(r.Parameters, nodeproto.ParameterReport{ID: id,
			Kind: "tunnel", State: "Present", Generation: r.Generation, Since: time.UnixMilli(1e12).UTC()})
		r.Health = append(r.Health, nodeproto.HealthReport{Name: fmt.Sprintf("executor/%06d", i), Good: true})
	}
	return r
}

// Any reports arrive as they were sent, whatever of them waited and gave way to newer ones.
func TestPropertyReportsInPartAreWholeWhereTheyArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tell, listen := reportSender{on: rapid.Bool().Draw(t, "on")}, reportReceiver{}
		var queue []waiting
		put := func(m *pb.Up, c class) error {
			if rapid.IntRange(0, 9).Draw(t, "full") == 0 {
				return ErrFull
			}
			o := outbox{queue: queue}
			o.drop(c)
			queue = append(o.queue, waiting{m: m, class: c})
			return nil
		}
		r, parts := manyParameters(rapid.IntRange(0, 80).Draw(t, "n")), 0
		for range rapid.IntRange(1, 12).Draw(t, "reports") {
			next := nodeproto.Report{MD5: r.MD5, Generation: r.Generation}
			often := rapid.IntRange(1, 30).Draw(t, "often")
			for i, p := range r.Parameters {
				switch rapid.IntRange(0, 60).Draw(t, "change") / often {
				case 0:
					if i%2 == 0 {
						continue
					}
					p.Attempts++
				}
				next.Parameters = append(next.Parameters, p)
			}
			for _, h := range r.Health {
				if rapid.IntRange(0, 40).Draw(t, "health") > 0 {
					next.Health = append(next.Health, h)
				}
			}
			sent := r
			r = next
			if err := tell.put(time.Time{}, sent, put); err != nil {
				continue
			}
			if rapid.Bool().Draw(t, "read") {
				continue
			}
			var got nodeproto.Report
			for _, w := range queue {
				text, err := proto.Marshal(w.m)
				m := &pb.Up{}
				if err = errors.Join(err, proto.Unmarshal(text, m)); err != nil {
					t.Fatal(err)
				}
				if m.GetReport().GetPart() {
					parts++
				}
				whole, err := listen.completeReport(m.GetReport())
				if err != nil {
					t.Fatal(err)
				}
				got = fromWireReport(whole)
			}
			queue = nil
			if len(got.Parameters) != len(sent.Parameters) || len(got.Health) != len(sent.Health) {
				t.Fatalf("%d parameters and %d items arrive, sent were %d and %d", len(got.Parameters), len(got.Health),
					len(sent.Parameters), len(sent.Health))
			}
			for i := range got.Parameters {
				if got.Parameters[i] != sent.Parameters[i] {
					t.Fatalf("%+v arrives, sent was %+v", got.Parameters[i], sent.Parameters[i])
				}
			}
		}
		if parts > 0 && !tell.on {
			t.Fatal("a controller that does not understand it got a part")
		}
	})
}

func TestAReportInPartWithoutABaseEndsItsStream(t *testing.T) {
	var l reportReceiver
	if _, err := l.completeReport(&pb.Report{Part: true}); !errors.Is(err, errNoBase) {
		t.Errorf("it is read: %v", err)
	}
}

// Over a real stream: the first report is whole, one of a single change is small.
func TestOneChangeOfAThousandIsASmallReport(t *testing.T) {
	r := newRig(t)
	n := r.run(t, r.joined(t))
	take(t, r.up)
	s := take(t, n.up)
	m := manyParameters(1000)
	sent := func() {
		t.Helper()
		if err := s.Send(m); err != nil {
			t.Fatal(err)
		}
		if got := take(t, r.messages); !reflect.DeepEqual(got, m) {
			t.Fatalf("another report arrives: %d parameters, %d items", len(got.(nodeproto.Report).Parameters),
				len(got.(nodeproto.Report).Health))
		}
	}
	sent()
	m.Parameters = append([]nodeproto.ParameterReport(nil), m.Parameters...)
	m.Parameters[500].State = "CheckPresentFailed"
	sent()
	m.Health = m.Health[1:]
	sent()
	size := func(on bool) (first, second int) {
		x, w := reportSender{on: on}, manyParameters(1000)
		var sizes []int
		put := func(u *pb.Up, _ class) error { sizes = append(sizes, proto.Size(u)); return nil }
		for range 2 {
			if err := x.put(time.Time{}, w, put); err != nil {
				t.Fatal(err)
			}
			w.Parameters[500].State = "CheckPresentFailed"
		}
		return sizes[0], sizes[1]
	}
	whole, part := size(true)
	_, again := size(false)
	t.Logf("1,000 parameters: a whole report has %d octets, one of a change %d; to an older controller %d", whole, part,
		again)
	if part*100 > whole || again < whole {
		t.Errorf("a whole report has %d octets, one of a change %d; to an older controller %d", whole, part, again)
	}
}

// In a large fleet an unchanged report is repeated once per spread: a change is sent at once, and so is the report
// after a message of the controller, or after one that could not be queued.
func TestAnUnchangedReportIsRepeatedLess(t *testing.T) {
	var sent int
	full := false
	put := func(*pb.Up, class) error {
		if full {
			return ErrFull
		}
		sent++
		return nil
	}
	var tell reportSender
	now := time.Unix(1e9, 0)
	report := func(r nodeproto.Report) (is bool) {
		t.Helper()
		was := sent
		if err := tell.put(now, r, put); (err != nil) != full {
			t.Fatal(err)
		}
		now = now.Add(reportInterval)
		return sent > was
	}
	one, two := manyParameters(3), manyParameters(4)
	for _, small := range []time.Duration{0, reportInterval} {
		tell.repeatAfter(small)
		for range 3 {
			if !report(one) {
				t.Fatalf("with a spread of %v a report was left out", small)
			}
		}
	}
	tell.repeatAfter(3 * reportInterval)
	for i, want := range []bool{true, false, false, true, false, false, true} {
		if report(one) != want {
			t.Errorf("report %d: sent %v", i, !want)
		}
	}
	if !report(two) || report(two) || !report(one) || report(one) {
		t.Error("a change must be sent, and only a change")
	}
	tell.forgetAfter(nodeproto.Probe{})
	if !report(one) || report(one) {
		t.Error("after a message of the controller the next report must be sent")
	}
	full = true
	report(two)
	full = false
	if !report(two) || report(two) {
		t.Error("a report that could not be queued must be sent again")
	}
}
