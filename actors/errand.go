package actors

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config/httpapi"
	"edgespan/config/nodeconf"
)

// keeperPatience is how long a disk may take to read or store a config before who
// waits for it is told. The keeper goes on: a blocked write can't be called back.
const keeperPatience = 10 * time.Second

// errand is one thing to be done by the keeper: to read the files, or to store a
// document, which becomes the running config once it is stored.
type errand struct {
	load  bool
	start bool // of the node

	doc        []byte
	isGood     bool // doc is the last good config already
	cfg        nodeconf.Config
	source     string
	fileDigest string  // of the file that doc came from, "" for none
	instead    *errand // if it can't be stored
	refusal    string  // what could not be done then
	record     NodeRecord

	from  *actor.PID // who waits for an applyAnswer, nil for nobody
	token uint64
}

type patienceDue struct{ token uint64 }

// submit has an errand done after those that wait already.
func (k *config) submit(c actor.Context, e *errand) {
	k.insert(c, len(k.queue), e)
	k.next(c)
}

func (k *config) insert(c actor.Context, at int, e *errand) {
	k.token++
	e.token = k.token
	k.timers.after(c, keeperPatience, func() any { return patienceDue{e.token} })
	k.queue = slices.Insert(k.queue, at, e)
}

// next gives the keeper its next errand, once it is free.
func (k *config) next(c actor.Context) {
	if k.busy != nil || len(k.queue) == 0 {
		return
	}
	e := k.queue[0]
	k.busy, k.queue = e, k.queue[1:]
	if e.load {
		c.Send(k.keeper, loadFiles{})
		return
	}
	e.record = k.count(e)
	msg := storeConfig{doc: e.doc, record: e.record}
	if e.isGood {
		msg.doc = nil
	}
	c.Send(k.keeper, msg)
}

// count is the record with an errand's document in it. The last good config keeps
// its generation, unless we died between storing it and counting it: no number
// stands for two configs.
func (k *config) count(e *errand) NodeRecord {
	r := k.record
	if e.fileDigest != "" {
		r.FileDigest = e.fileDigest
	}
	switch {
	case !e.isGood:
		r.Source = e.source
	case r.Source == "": // the journal is lost, the document is not
		r.Source = "last-good"
	}
	if !e.isGood || digest(e.doc) != r.DocDigest {
		r.Generation++
	}
	r.DocDigest, r.MD5 = digest(e.doc), e.cfg.MD5
	r.Networks = versions(r.Networks, e.cfg.Networks, r.Generation)
	r.Ports = versions(r.Ports, e.cfg.Ports, r.Generation)
	return r
}

// stored makes the document that the keeper has stored the running config.
func (k *config) stored(c actor.Context, err error) {
	e := k.busy
	k.busy = nil
	a := applyAnswer{err: err}
	switch {
	case err == nil:
		k.record = e.record
		if !e.isGood { // else what is wrong with the file still is
			k.fault = ""
		}
		k.publish(e.cfg)
		for _, w := range e.cfg.Warnings {
			a.warnings = append(a.warnings, w.Error())
		}
		a.generation = k.record.Generation
	default:
		a.err = fmt.Errorf("%s: %w", e.refusal, err)
		if e.from == nil {
			k.refuse(e.refusal, err)
		}
		if e.instead != nil {
			k.insert(c, 0, e.instead)
		}
	}
	if e.from != nil {
		c.Send(e.from, a)
	}
	k.next(c)
}

// impatient answers who has waited for the disk for too long: what still waits for
// its turn is given up, what the disk has takes effect once that answers.
func (k *config) impatient(c actor.Context, token uint64) {
	if e := k.busy; e != nil && e.token == token {
		what := "store the config"
		if e.load {
			what = "read the config file"
		}
		err := fmt.Errorf("the disk has not answered for %v; the config takes effect once it does: %w", keeperPatience, context.DeadlineExceeded)
		if !e.isGood {
			k.refuse(what, err)
		}
		if e.from != nil {
			c.Send(e.from, applyAnswer{err: fmt.Errorf("%s: %w", what, err)})
			e.from = nil
		}
		return
	}
	i := slices.IndexFunc(k.queue, func(e *errand) bool { return e.token == token })
	if i < 0 || k.queue[i].from == nil {
		return
	}
	c.Send(k.queue[i].from, applyAnswer{
		err: fmt.Errorf("store the config: %w: the disk has not answered an earlier request for %v: try again", httpapi.ErrBusy, keeperPatience),
	})
	k.d.log.Warn("gave up an apply that waited for the disk", zap.Duration("after", keeperPatience))
	k.queue = slices.Delete(k.queue, i, i+1)
}
