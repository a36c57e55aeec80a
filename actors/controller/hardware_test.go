package controller

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/config/layers"
)

// unread is a folder of base files that can't be read at some moments.
type unread struct {
	*base
	fails atomic.Bool
	reads atomic.Int64
}

func (u *unread) Read(c layers.Choice) (layers.Set, error) {
	u.reads.Add(1)
	if u.fails.Load() {
		return layers.Set{}, errors.New("open base: too many open files")
	}
	return u.base.Read(c)
}

func TestABaseFileThatCannotBeReadIsReadAgain(t *testing.T) {
	t.Parallel()
	onRig(t, func(r *rig) {
		u := &unread{base: r.base}
		u.fails.Store(true)
		r.change = func(o *Options) { o.Base = u }
		c := r.start("a")
		r.node(c, "n1")
		r.pass(time.Hour)
		if s, why := r.state(c, "n1"); s == "in sync" {
			t.Fatalf("%s %s", s, why)
		}
		if n := u.reads.Load(); n < 30 || n > 80 {
			t.Errorf("read %d times in an hour: once a minute is meant", n)
		}
		u.fails.Store(false)
		r.pass(2 * time.Minute)
		if s, why := r.state(c, "n1"); s != "in sync" {
			t.Errorf("the file is there again: %s %s", s, why)
		}
	})
}
