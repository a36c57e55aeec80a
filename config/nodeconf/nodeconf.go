package nodeconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/config"
	"edgespan/netinst"
	"edgespan/netinst/probe"
)

// SysParams holds the parameters of the daemon itself.
type SysParams struct {
	ManagedConfig   bool
	LogLevel        string // debug, info, warn or error
	WatchdogSeconds int    // 0 for no watchdog
	Drift           string // DriftObserve; any other value repairs drift
	Facts           FactsUpload
	FlowExport      FlowExport
}

// FlowExport configures where the flow logs of a node's networks are sent.
type FlowExport struct {
	Collector       string // "udp://ADDRESS:PORT" or "tcp://ADDRESS:PORT", "" for none
	Domain          uint32 // observation domain (RFC 7011)
	TemplateSeconds int    // between two transmissions of the templates over UDP
	Socket          string // path of a Unix socket, "" for none
}

// FactsUpload configures where a node uploads its facts.
type FactsUpload struct {
	Environment int    // environment ID in ConfigDB; 0: no upload
	URL         string // "": the controllers that the node has joined
	Seconds     int    // between two uploads
}

// Config is the content of one effective document, complete and free of faults.
type Config struct {
	Sys      SysParams
	Ports    map[string]netinst.PortConfig               // by label
	Networks map[uuid.UUID]netinst.NetworkInstanceConfig // Generation is 0: the document has none
	Apps     map[uuid.UUID]appnet.AppNetworkConfig
	Sharers  int            // netinst.Sharers of all adapters
	Warnings []config.Fault // sorted by path
	MD5      string         // of the document's canonical form
}

// Read parses a YAML or JSON document as docs/configuration.md describes it and returns the document and its Config.
// Its error is of type config.Faults and holds all faults of the document.
func Read(text []byte) (config.Object, Config, error) {
	doc, faults := config.ReadDocument(text)
	if doc.Object == nil {
		return nil, Config{}, faults
	}
	cfg, err := parse(doc, faults)
	if err == nil {
		if faults = doc.Unsupported(); len(faults) > 0 { // absent entries may contain such values
			return nil, Config{}, faults
		}
	}
	return doc.Object, cfg, err
}

// Parse returns the Config of a document. Its error is of type config.Faults and holds all faults of the document.
func Parse(document config.Object) (Config, error) {
	return parse(config.Document{Object: document}, nil)
}

// parse is Parse for a document that was read with the faults fs, which it reports together with those that it finds.
func parse(doc config.Document, fs config.Faults) (Config, error) {
	top := walker{doc, &fs}.walkMapping(schema, doc.Object, nil)
	c := &checker{
		faults:   &fs,
		ports:    top.objectOrEmpty("ports"),
		networks: top.objectOrEmpty("networkInstances"),
		apps:     top.objectOrEmpty("appNetworks"),
		noPorts:  top.isInvalid("ports"),
		sets:     map[uuid.UUID]map[string]*netinst.AddressSet{},
		hosts:    map[uuid.UUID]map[netinst.Hostname]bool{},
		cfg: Config{
			Sys:      readSysParams(top.objectOrEmpty("sysParams")),
			Ports:    map[string]netinst.PortConfig{},
			Networks: map[uuid.UUID]netinst.NetworkInstanceConfig{},
			Apps:     map[uuid.UUID]appnet.AppNetworkConfig{},
		},
	}
	c.checkPorts()
	c.checkNetworks()
	c.checkAddressing()
	c.checkVLANs()
	c.checkApps()
	c.checkSwitchVLANs()
	c.checkPortmaps()
	c.shareFlows()
	if len(fs) > 0 {
		fs.Sort()
		return Config{}, fs
	}
	for _, f := range TapMTUs(c.cfg) {
		c.cfg.Warnings = append(c.cfg.Warnings, f)
	}
	config.Faults(c.cfg.Warnings).Sort()
	c.cfg.MD5 = config.MD5(doc.Object)
	return c.cfg, nil
}

// shareFlows records in each network how many adapters share the node's tracked flows.
func (c *checker) shareFlows() {
	n := 0
	for _, a := range c.cfg.Apps {
		n += len(a.Adapters)
	}
	c.cfg.Sharers = netinst.Sharers(n)
	for id, ni := range c.cfg.Networks {
		ni.Sharers = c.cfg.Sharers
		c.cfg.Networks[id] = ni
	}
}

// DriftObserve is the value of sysParams.drift that reports drift and does not repair it.
const DriftObserve = "observe"

// readSysParams reads the object sysParams, which may be absent.
func readSysParams(o *object) SysParams {
	if len(o.slots) == 0 {
		o = walker{faults: &config.Faults{}}.walkMapping(schema.below["sysParams"], config.Object{}, nil)
	}
	return SysParams{
		ManagedConfig:   value[bool](o, "managedConfig"),
		LogLevel:        value[string](o, "logLevel"),
		WatchdogSeconds: value[int](o, "watchdogSeconds"),
		Drift:           value[string](o, "drift"),
		Facts: FactsUpload{
			Environment: value[int](o, "factsEnvironment"),
			URL:         value[string](o, "factsURL"),
			Seconds:     value[int](o, "factsSeconds"),
		},
		FlowExport: FlowExport{
			Collector:       value[string](o, "flowExportCollector"),
			Domain:          uint32(value[int](o, "flowExportDomain")),
			TemplateSeconds: value[int](o, "flowExportTemplateSeconds"),
			Socket:          value[string](o, "flowExportSocket"),
		},
	}
}

// checker builds a Config from a walked document and checks its fields against each other. A field that is wrong by
// itself has the zero value here and takes part in no comparison.
type checker struct {
	faults                *config.Faults
	ports, networks, apps *object
	noPorts               bool // the complete mapping of ports is wrong, so no label is known
	sets                  map[uuid.UUID]map[string]*netinst.AddressSet
	hosts                 map[uuid.UUID]map[netinst.Hostname]bool // in rules, by network
	cfg                   Config
}

func (c *checker) addFault(path []string, what, allowed string) { c.faults.Add(path, what, allowed) }

// duplicateText is the problem of a value that another path has too.
func duplicateText(v any, other []string) string {
	return fmt.Sprintf("duplicate value %s, also at %s", config.EscapeStart(fmt.Sprint(v)), config.FormatPath(other))
}

func (c *checker) checkPorts() {
	names := map[netinst.IfName][]string{}
	for _, label := range c.ports.keys() {
		o := c.ports.objectOrEmpty(label)
		p := netinst.PortConfig{
			Label:      label,
			IfName:     value[netinst.IfName](o, "ifName"),
			Uplink:     value[bool](o, "uplink"),
			Cost:       value[int](o, "cost"),
			Labels:     items[string](o, "labels"),
			DNSServers: items[netip.Addr](o, "dnsServers"),
			NTPServers: items[netip.Addr](o, "ntpServers"),
			MTU:        value[int](o, "mtu"),
			Gateway:    value[netip.Addr](o, "gateway"),
			Metered:    value[bool](o, "metered"),
			ProbeBytes: unlessDefault(value[int](o, "probeBytesPerDay"), probe.DefaultProbeBytes),
			Weight:     unlessDefault(value[int](o, "weight"), 1),
			Static:     items[netip.Prefix](o, "address"),
		}
		c.warnOfUnusedBudget(o, p)
		if a := value[string](o, "addressing"); a != external {
			p.Addressing = netinst.Addressing(a)
		}
		if v := o.objectOrEmpty("vlan"); o.isGiven("vlan") {
			p.VLAN = netinst.VLAN{Parent: value[netinst.IfName](v, "parent"), ID: value[int](v, "id")}
		}
		c.cfg.Ports[label] = p
		if p.IfName != "" {
			if isOwnKey(p.IfName) {
				c.addFault(o.pathOf("ifName"), config.Invalid(string(p.IfName)),
					"must be an interface other than those of edgespan (es or evpn followed by a digit)")
			} else if first := names[p.IfName]; first != nil {
				c.addFault(o.pathOf("ifName"), duplicateText(p.IfName, first), "must be unique: one port for each interface")
			} else {
				names[p.IfName] = o.pathOf("ifName")
			}
		}
		for _, l := range p.Labels {
			if other := c.ports.objectAt(l); other != nil && l != label {
				c.addFault(o.pathOf("labels"), config.Invalid(l)+", the label of "+config.FormatPath(other.path),
					"must be shared labels that no port has as its own")
				break
			}
		}
	}
}

// isOwnKey reports whether edgespan uses names of this form for its own links (docs/architecture.md, law 3).
func isOwnKey(n netinst.IfName) bool {
	for _, prefix := range []string{"es", "evpn"} {
		if rest, ok := strings.CutPrefix(string(n), prefix); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			return true
		}
	}
	return false
}

// portsOf lists the ports that a label selects; ok is false if no port has the label.
func (c *checker) portsOf(label string) (found []netinst.PortConfig, ok bool) {
	for _, l := range c.ports.keys() {
		p := c.cfg.Ports[l]
		match := l == label || label == "all" || slices.Contains(p.Labels, label) ||
			p.Uplink && (label == "uplink" || label == "freeuplink" && p.Cost == 0)
		if match {
			found = append(found, p)
		}
	}
	return found, len(found) > 0 || c.ports.isGiven(label) || slices.Contains(reserved, label)
}

// checkLabel checks a reference to a port, the value of o's field key.
func (c *checker) checkLabel(o *object, key, label string) {
	if label == "" || c.noPorts {
		return
	}
	if _, ok := c.portsOf(label); ok {
		return
	}
	known := slices.Clone(reserved)
	known = append(known, c.ports.sorted(func(s slot) bool { return s.given })...)
	for _, p := range c.cfg.Ports {
		known = append(known, p.Labels...)
	}
	slices.Sort(known)
	c.addFault(o.pathOf(key), config.Invalid(label)+", which no port has", config.OneOf(slices.Compact(known)))
}
