package simulation

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"edgespan/actors/supervise"
)

// crashes is a log that notes the actors and leaves that crash, which start again and so may heal what they broke. A
// crash that the fakes made is none.
type crashes struct {
	mu   sync.Mutex
	list []string
}

// maxCrashes of a look are told.
const maxCrashes = 3

func (*crashes) Enabled(l zapcore.Level) bool        { return l >= zapcore.WarnLevel }
func (c *crashes) With([]zapcore.Field) zapcore.Core { return c }
func (*crashes) Sync() error                         { return nil }

func (c *crashes) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Message == "panic" {
		return to.AddCore(e, c)
	}
	return to
}

func (c *crashes) Write(_ zapcore.Entry, fields []zapcore.Field) error {
	said := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(said)
	}
	cause := fmt.Sprint(said.Fields["err"])
	if strings.Contains(cause, "injected panic in ") || strings.HasPrefix(cause, "the check of ") {
		return nil
	}
	name, ok := said.Fields["actor"]
	if !ok {
		name = said.Fields["leaf"]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) < maxCrashes {
		c.list = append(c.list, fmt.Sprintf("%v: %s\n%v", name, cause, said.Fields["stack"]))
	}
	return nil
}

// taken returns the crashes since the last call.
func (c *crashes) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.list
	c.list = nil
	return out
}

// What the supervision of the product logs of a crash is noted, and what the fakes inject is not.
func TestCrashesAreNoted(t *testing.T) {
	for cause, want := range map[any]bool{"index out of range": true, fmt.Errorf("an error"): true,
		"fake host: injected panic in link es1": false, "the check of 1": false} {
		var leaves sync.WaitGroup
		c := new(crashes)
		supervise.Leaf(zap.New(c).Named("x").With(zap.Int("n", 1)), &leaves, "reader", func() { panic(cause) }, func(any) {})
		leaves.Wait()
		got := c.taken()
		if (len(got) == 1) != want || want && !strings.Contains(got[0], fmt.Sprint(cause)) {
			t.Errorf("%v: %q", cause, got)
		}
		if again := c.taken(); len(again) > 0 {
			t.Errorf("%v again: %q", cause, again)
		}
	}
}
