package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/agent"
	"edgespan/actors/node/api"
	"edgespan/config/configdb"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/netinst/netstate"
	"edgespan/platform/factlink"
	"edgespan/platform/nodelink"
	"edgespan/platform/pki"
	"edgespan/pubsub"
)

// The data sources that a node uploads: its own facts, and what its config results in.
const (
	nodeFacts   = "node/facts"
	nodeGlobals = "node/globals"
)

// apiPort is the default port of a controller's API.
const apiPort = "8443"

// informer keeps the node's facts in ConfigDB up to date. It authenticates with the node's certificate.
type informer struct {
	id      string
	about   agent.NodeFacts
	machine api.FactsReader
	topics  *api.Topics
	creds   *pki.Credentials // nil: the node has joined no controller
	log     *zap.Logger
}

// start uploads the facts in the background whenever the config requests it; stop ends that.
func (i informer) start() (stop func(context.Context) error) {
	sender := factlink.New(factlink.Options{Node: i.id, Log: i.log, Collect: i.collect, Open: i.open})
	ctx, cancel := context.WithCancel(context.Background())
	wake := make(chan struct{}, 1)
	ring := func() {
		select {
		case wake <- struct{}{}:
		default: // an upload is already due
		}
	}
	params := i.topics.SysParams.Subscribe(pubsub.Selector{}, ring)
	source := i.topics.Source.Subscribe(pubsub.Selector{}, ring)
	sent, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		sender.Run(ctx)
	}()
	go func() {
		defer close(ended)
		defer func() { <-sent }()
		defer params.Close()
		defer source.Close()
		for {
			select {
			case <-ctx.Done():
				return
			case <-wake:
				params.Drain()
				source.Drain()
				sender.Set(i.settings())
			}
		}
	}()
	return func(until context.Context) error {
		cancel()
		select {
		case <-ended:
			return nil
		case <-until.Done():
			return errors.New("upload of facts: timed out")
		}
	}
}

// settings returns the settings for facts in the running config.
func (i informer) settings() factlink.Settings {
	sys, _ := i.topics.SysParams.Get("", "node")
	source, _ := i.topics.Source.Get("", "node")
	if sys.Facts.Environment == 0 {
		return factlink.Settings{}
	}
	if i.creds == nil {
		i.log.Warn("sysParams.factsEnvironment: node not joined: facts are not uploaded: run 'edgespan join' first")
		return factlink.Settings{}
	}
	return factlink.Settings{
		Environment: int64(sys.Facts.Environment), URLs: factURLs(sys.Facts.URL, i.about.Controller),
		Every: time.Duration(sys.Facts.Seconds) * time.Second, Config: source.MD5,
	}
}

// factURLs returns the URLs of ConfigDB: the configured one, or else one for each controller that the node joined.
func factURLs(said, controllers string) []string {
	if said != "" {
		return []string{said}
	}
	all, err := nodelink.Addresses(controllers)
	if err != nil {
		return nil // join refuses them
	}
	var out []string
	for _, one := range all {
		if host, _, err := net.SplitHostPort(one); err == nil {
			out = append(out, "https://"+net.JoinHostPort(host, apiPort))
		}
	}
	return out
}

// open returns a client that presents the node's newest certificate.
func (i informer) open(where string) (factlink.Door, error) {
	u, err := url.Parse(where)
	if err != nil {
		return nil, fmt.Errorf("query ConfigDB: %w", err)
	}
	settings, err := i.creds.TLS(u.Hostname())
	if err != nil {
		return nil, err
	}
	// No proxy: the controller is nearby, and the link to it uses none either.
	return configdbapi.NewClient(configdbapi.Options{URL: where,
		Transport: &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true}})
}

// collect returns the facts to upload. They contain no secret, and nothing that changes by itself, such as a process
// ID or a counter: unchanged facts create no new version.
func (i informer) collect(ctx context.Context) (configdbapi.BulkBody, error) {
	read, err := i.machine.Read(ctx)
	if err != nil {
		return configdbapi.BulkBody{}, fmt.Errorf("collect facts: %w", err)
	}
	body := configdbapi.BulkBody{Resources: map[string]configdbapi.BulkResource{}}
	for name, v := range map[string]any{nodeFacts: factsOf(i.about, read, i.id, i.topics),
		nodeGlobals: globalsOf(i.topics)} {
		text, err := json.Marshal(v)
		if err != nil {
			return body, fmt.Errorf("collect facts: %w", err)
		}
		values := configdbapi.Document{}
		o, err := configdb.ParseObject(text)
		if err != nil {
			return body, fmt.Errorf("collect facts: %w", err)
		}
		for _, m := range o.Members() {
			values[m.Key] = m.Value
		}
		body.Resources[name] = configdbapi.BulkResource{Values: values}
	}
	return body, nil
}

// object is a JSON object.
type object = map[string]any

// factsOf returns the facts about the node itself.
func factsOf(about agent.NodeFacts, m netstate.Facts, id string, t *api.Topics) object {
	host, _ := os.Hostname() // "" if the kernel has none
	ports := object{}
	for label, p := range t.PortStatus.List("") {
		ports[label] = object{"ifName": p.IfName, "exists": p.Exists, "mtu": p.LinkMTU, "addresses": textsOf(p.Addresses),
			"gateways": textsOf(p.Gateways())}
	}
	return object{
		"id": id, "name": about.Name, "hostname": host, "architecture": runtime.GOARCH, "processors": runtime.NumCPU(),
		"software": about.Software, "firmware": about.Firmware, "board": about.Board,
		"commands": m.Commands, "features": m.Features, "networkd": m.Networkd,
		"iptables": object{"version": m.Iptables.Version, "mode": m.Iptables.Mode}, "ports": ports,
	}
}

func textsOf[T fmt.Stringer](all []T) []string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = one.String()
	}
	return out
}

// globalsOf returns what the config last published results in on the node.
func globalsOf(t *api.Topics) object {
	source, _ := t.Source.Get("", "node")
	networks, apps := object{}, object{}
	for id, c := range t.NetworkConfig.List("") {
		networks[id] = object{"name": c.DisplayName, "type": c.Type, "activate": !c.Inactive, "port": c.Port,
			"subnet": c.IPv4.Subnet, "gateway": c.IPv4.Gateway, "domain": c.DNS.Domain}
	}
	for id, c := range t.AppConfig.List("") {
		adapters := object{}
		for i, a := range c.Adapters {
			adapters[strconv.Itoa(i)] = object{"networkInstance": a.NetworkInstance, "hostname": a.Hostname, "mac": a.MAC,
				"ip": a.IP}
		}
		apps[id] = object{"name": c.DisplayName, "activate": c.Activate, "adapters": adapters}
	}
	return object{"config": object{"md5": source.MD5, "source": source.Source}, "networkInstances": networks,
		"appNetworks": apps}
}
