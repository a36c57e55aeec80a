package actors

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/appnet"
	"edgespan/config/nodeconf"
	"edgespan/netinst"
	"edgespan/pubsub"
)

// applyDocument asks the config actor to make a document the running config; it
// answers with applyAnswer when it is valid and stored.
type applyDocument struct{ doc []byte }

type applyAnswer struct {
	warnings   []string
	generation uint64
	err        error
}

// reload asks it to read the file again (SIGHUP).
type reload struct{}

// config owns the wish: it judges the file and documents from the socket, has its
// keeper store the good ones, and then publishes what is in them. A faulty document
// changes nothing.
type config struct {
	d      *deps
	record NodeRecord
	keeper *actor.PID
	busy   *errand   // the one that the keeper has
	queue  []*errand // the keeper gets them one by one, in order
	token  uint64
	timers timers
	fault  string // Source.Error

	networks *pubsub.Publisher[netinst.NetworkInstanceConfig]
	apps     *pubsub.Publisher[appnet.AppNetworkConfig]
	ports    *pubsub.Publisher[netinst.PortConfig]
	sys      *pubsub.Publisher[nodeconf.SysParams]
	source   *pubsub.Publisher[Source]
	reporter reporter
}

func (k *config) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		k.started(c)
	case *actor.Stopping, *actor.Restarting:
		k.timers.stop()
		k.reporter.stop()
	case applyDocument:
		k.apply(c, msg.doc)
	case reload:
		if !slices.ContainsFunc(k.queue, func(e *errand) bool { return e.load }) { // one look sees it all
			k.submit(c, &errand{load: true})
		}
	case filesLoaded:
		k.loaded(c, msg)
	case configStored:
		k.stored(c, msg.err)
	case patienceDue:
		k.impatient(c, msg.token)
	case poke:
		k.reporter.drain()
	case ping:
		c.Send(c.Parent(), pong{"config", msg.beat})
	}
}

func (k *config) started(c actor.Context) {
	t := k.d.topics
	k.networks, k.apps, k.ports = t.NetworkConfig.Publisher(ownerConfig), t.AppConfig.Publisher(ownerConfig), t.PortConfig.Publisher(ownerConfig)
	k.sys, k.source = t.SysParams.Publisher(ownerConfig), t.Source.Publisher(ownerConfig)
	k.record, _ = t.NodeRecord.Get("", "node")
	k.reporter.start(t, poker(c))
	k.keeper = spawn(c, k.d.vital(func() actor.Actor { return &keeper{d: k.d} }), "keeper")
	k.submit(c, &errand{load: true, start: true})
}

// loaded judges what the files hold: the config file is applied if it is not the one
// applied last; at the start what ran last is, if the file is not. A missing or
// faulty file leaves everything as it is.
func (k *config) loaded(c actor.Context, f filesLoaded) {
	start := k.busy.start
	k.busy, k.fault = nil, ""
	e := k.fromFile(f)
	if start {
		last := k.lastGood(f, e == nil)
		if e == nil {
			e = last
		} else {
			e.instead = last
		}
	}
	if e != nil { // before what was asked for later
		k.insert(c, 0, e)
	}
	k.tell()
	k.next(c)
}

// fromFile is what to do about the config file, nil for nothing.
func (k *config) fromFile(f filesLoaded) *errand {
	switch {
	case f.name == "":
		return nil
	case f.fileErr != nil:
		k.refuse("read the config file", f.fileErr)
		return nil
	case digest(f.file) == k.record.FileDigest && f.goodErr == nil:
		return nil
	}
	cfg, err := nodeconf.Parse(f.file)
	if err != nil {
		k.refuse("apply the config file "+f.name, err)
		return nil
	}
	return &errand{doc: f.file, cfg: cfg, source: "file", fileDigest: digest(f.file), refusal: "apply the config file " + f.name}
}

// lastGood is the publishing of what ran last, at its old generation; nil where there
// is none. wanted says that there is nothing better.
func (k *config) lastGood(f filesLoaded, wanted bool) *errand {
	if errors.Is(f.goodErr, fs.ErrNotExist) {
		if wanted {
			k.d.log.Info("no config yet: networks found on the host stay as they are, unclaimed")
		}
		return nil
	}
	cfg, err := nodeconf.Config{}, f.goodErr
	if err == nil {
		cfg, err = nodeconf.Parse(f.good)
	}
	if err != nil {
		k.refuse("read the last good config", err)
		return nil
	}
	return &errand{doc: f.good, isGood: true, cfg: cfg, refusal: "count the last good config"}
}

// refuse tells why a config was not taken: in the log and in the source's status.
func (k *config) refuse(what string, err error) {
	k.d.log.Error(what, zap.Error(err))
	k.fault = fmt.Sprintf("%s: %v", what, err)
	k.tell()
}

// tell publishes what is wrong with the source, and nothing else of it.
func (k *config) tell() {
	s, _ := k.d.topics.Source.Get("", "node")
	s.Error = k.fault
	must(k.source.Publish("", "node", s))
}

// apply has a document checked whole and stored; the answer comes after that.
func (k *config) apply(c actor.Context, doc []byte) {
	cfg, err := nodeconf.Parse(doc)
	if err != nil {
		c.Respond(applyAnswer{err: err})
		return
	}
	k.submit(c, &errand{doc: doc, cfg: cfg, source: "apply", from: c.Sender(), refusal: "store the config"})
}

// publish puts a config on the topics. Ports go first and networks next, so that
// who sees an app can see what it stands on; what is gone goes in the other order.
func (k *config) publish(cfg nodeconf.Config) {
	t := k.d.topics
	must(k.sys.Publish("", "node", cfg.Sys))
	k.d.setLevel(cfg.Sys.LogLevel)

	for id := range t.AppConfig.List("") {
		if !hasKey(cfg.Apps, id) {
			must(k.apps.Unpublish("", id))
		}
	}
	for id := range t.NetworkConfig.List("") {
		if !hasKey(cfg.Networks, id) {
			must(k.networks.Unpublish("", id))
		}
	}
	for label := range t.PortConfig.List("") {
		if _, ok := cfg.Ports[label]; !ok {
			must(k.ports.Unpublish("", label))
		}
	}
	for label, p := range cfg.Ports {
		p.Generation = k.record.Ports[label].Generation
		must(k.ports.Publish("", label, p))
	}
	for id, n := range cfg.Networks {
		n.Generation = k.record.Networks[id.String()].Generation
		must(k.networks.Publish("", id.String(), n))
	}
	for id, a := range cfg.Apps {
		must(k.apps.Publish("", id.String(), a))
	}
	r := k.record
	must(k.source.Publish("", "node", Source{
		Source: r.Source, Generation: r.Generation, MD5: r.MD5, FileDigest: r.FileDigest, Error: k.fault, Valid: true,
	}))
	k.d.log.Info("config published", zap.String("source", r.Source), zap.Uint64("gen", r.Generation), zap.String("md5", r.MD5),
		zap.Int("networks", len(cfg.Networks)), zap.Int("apps", len(cfg.Apps)))
}

// versions are the generations of objects: the old one of each that did not change.
// An apply that leaves an object alone does not touch it.
func versions[K comparable, V any](old map[string]ObjectVersion, objects map[K]V, generation uint64) map[string]ObjectVersion {
	vs := make(map[string]ObjectVersion, len(objects))
	for k, o := range objects {
		key := fmt.Sprint(k)
		v := ObjectVersion{Generation: generation, Digest: digestOf(o)}
		if was, ok := old[key]; ok && was.Digest == v.Digest {
			v = was
		}
		vs[key] = v
	}
	return vs
}

func hasKey[K interface {
	comparable
	String() string
}, V any](m map[K]V, key string) bool {
	for k := range m {
		if k.String() == key {
			return true
		}
	}
	return false
}

// must turns an error of a topic into a crash: a journal that can't be written,
// or a second owner of our keys.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func digest(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func digestOf(v any) string {
	b, err := json.Marshal(v)
	must(err)
	return digest(b)
}
