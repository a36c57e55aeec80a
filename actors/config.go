package actors

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

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

// config owns the wish: it reads the file, takes documents from the socket, keeps
// the last good one on disk, and publishes what is in it. A faulty document
// changes nothing.
type config struct {
	d      *deps
	record NodeRecord

	networks  *pubsub.Publisher[netinst.NetworkInstanceConfig]
	apps      *pubsub.Publisher[appnet.AppNetworkConfig]
	ports     *pubsub.Publisher[netinst.PortConfig]
	sys       *pubsub.Publisher[nodeconf.SysParams]
	source    *pubsub.Publisher[Source]
	recordPub *pubsub.Publisher[NodeRecord]
	reporter  reporter
}

func (k *config) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		k.started(c)
	case *actor.Stopping, *actor.Restarting:
		k.reporter.stop()
	case applyDocument:
		w, err := k.apply(msg.doc, "apply", "")
		c.Respond(applyAnswer{warnings: w, generation: k.record.Generation, err: err})
	case reload:
		k.readFile()
	case poke:
		k.reporter.drain()
	case ping:
		c.Send(c.Parent(), pong{"config", msg.beat})
	}
}

func (k *config) started(c actor.Context) {
	t := k.d.topics
	k.networks, k.apps, k.ports = t.NetworkConfig.Publisher(ownerConfig), t.AppConfig.Publisher(ownerConfig), t.PortConfig.Publisher(ownerConfig)
	k.sys = t.SysParams.Publisher(ownerConfig)
	k.source, k.recordPub = t.Source.Publisher(ownerConfig), t.NodeRecord.Publisher(ownerConfig)
	k.recordPub.Take("", "node")
	k.record, _ = t.NodeRecord.Get("", "node")
	k.reporter.start(t, poker(c))

	if !k.readFile() {
		k.lastGood()
	}
}

// readFile applies the file if it is not the one applied last, and says whether
// it did. A missing or faulty file leaves everything as it is.
func (k *config) readFile() bool {
	data, name, err := k.d.files.ReadConfig()
	switch {
	case name == "":
		return false
	case err != nil:
		k.refuse("read the config file", err)
		return false
	case digest(data) == k.record.FileDigest && k.hasLastGood():
		return false
	}
	if _, err := k.apply(data, "file", digest(data)); err != nil {
		k.refuse("apply the config file "+name, err)
		return false
	}
	return true
}

func (k *config) hasLastGood() bool {
	_, err := k.d.files.ReadLastGood()
	return err == nil
}

// lastGood publishes what ran last, at its old generation.
func (k *config) lastGood() {
	data, err := k.d.files.ReadLastGood()
	if errors.Is(err, fs.ErrNotExist) {
		k.d.log.Info("no config yet: networks found on the host stay as they are, unclaimed")
		return
	}
	if err != nil {
		k.refuse("read the last good config", err)
		return
	}
	cfg, err := nodeconf.Parse(data)
	if err != nil {
		k.refuse("read the last good config", err)
		return
	}
	generation := k.record.Generation
	if digest(data) != k.record.DocDigest {
		generation++ // we died between storing it and counting it: no number stands for two configs
	}
	k.record.DocDigest = digest(data)
	k.publish(cfg, "last-good", generation)
}

// refuse tells why a config was not taken: in the log and in the source's status.
func (k *config) refuse(what string, err error) {
	k.d.log.Error(what, zap.Error(err))
	s, _ := k.d.topics.Source.Get("", "node")
	s.Error = fmt.Sprintf("%s: %v", what, err)
	if err := k.source.Publish("", "node", s); err != nil {
		panic(err)
	}
}

// apply makes a document the running config: checked whole, stored, then
// published. fileDigest is that of the file it came from, "" for none.
func (k *config) apply(doc []byte, source, fileDigest string) ([]string, error) {
	cfg, err := nodeconf.Parse(doc)
	if err != nil {
		return nil, err
	}
	var warnings []string
	for _, w := range cfg.Warnings {
		warnings = append(warnings, w.Error())
	}
	if err := k.d.files.WriteLastGood(doc); err != nil {
		return nil, fmt.Errorf("store the config: %w", err)
	}
	if fileDigest != "" {
		k.record.FileDigest = fileDigest
	}
	k.record.Source, k.record.DocDigest = source, digest(doc)
	k.publish(cfg, source, k.record.Generation+1)
	return warnings, nil
}

// publish puts a config on the topics. Ports go first and networks next, so that
// who sees an app can see what it stands on; what is gone goes in the other order.
func (k *config) publish(cfg nodeconf.Config, source string, generation uint64) {
	t := k.d.topics
	k.record.Generation = generation
	k.record.Networks = versions(k.record.Networks, cfg.Networks, generation)
	k.record.Ports = versions(k.record.Ports, cfg.Ports, generation)
	must(k.recordPub.Publish("", "node", k.record))
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
	must(k.source.Publish("", "node", Source{Source: source, Generation: generation, Valid: true}))
	k.d.log.Info("config published", zap.String("source", source), zap.Uint64("gen", generation),
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
