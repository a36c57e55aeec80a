package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"edgespan/pubsub"
)

// keeper is the config actor's leaf: whatever of a config touches the disk blocks
// here, so that a hung disk stops nobody else. It decides nothing.
type keeper struct {
	d      *deps
	record *pubsub.Publisher[NodeRecord]
}

type (
	// loadFiles asks for what the files hold now; filesLoaded answers.
	loadFiles   struct{}
	filesLoaded struct {
		file    []byte
		name    string // of the config file, "" for none
		fileErr error
		good    []byte // the last good config
		goodErr error
	}
	// storeConfig asks for a document on disk, and then for the record that counts
	// it in the journal; configStored answers when both are synced.
	storeConfig struct {
		doc    []byte // nil: it is the last good config already
		record NodeRecord
	}
	configStored struct{ err error }
)

func (k *keeper) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		k.record = k.d.topics.NodeRecord.Publisher(ownerConfig)
		k.record.Take("", "node")
	case loadFiles:
		var f filesLoaded
		f.file, f.name, f.fileErr = k.d.files.ReadConfig()
		f.good, f.goodErr = k.d.files.ReadLastGood()
		c.Send(c.Parent(), f)
	case storeConfig:
		var err error
		if msg.doc != nil {
			err = k.d.files.WriteLastGood(msg.doc)
		}
		if err == nil {
			must(k.record.Publish("", "node", msg.record)) // without its journal the node can't go on
		}
		c.Send(c.Parent(), configStored{err})
	}
}
