package serve

import (
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/actors/configdb"
	"edgespan/cmd/term"
	"edgespan/config/layers/schema"
	"edgespan/platform/keystone"
)

// Options are the settings of a controller.
type Options struct {
	DataDir text
	Etcd    list
	EtcdCA, EtcdCert, EtcdKey,
	EtcdUser, EtcdPasswordFile text
	Fleet   text
	Replica text

	BaseDir  text
	Metadata list

	Listen, NodeListen text
	NodeHost           list
	Auth               text
	CACert, CAKey      text
	Actions            text

	PasswdFile                                                       text
	KeystoneURL, KeystoneUser, KeystonePasswordFile, KeystoneProject text
	KeystoneUserDomain, KeystoneProjectDomain, KeystoneCAFile        text
	KeystoneProjects, KeystoneRoles                                  list
	KeystoneWindow                                                   number
	ClientCAFile, ClientCRLFile                                      text

	TraceEndpoint, TraceCA, TraceRatio text

	AuditMB, PerAddress number
	certificates

	FactsMemory, FactsVersions number
	FactsNodeVersions          number
	FactsNodesMB               number
	FactsDirect, FactsProxied  boolean

	V, Joins                                                    number
	UnknownHW, StagedRollout                                    boolean
	ReconfigDelay, BoardDelay, ActionsTime, ConfirmTime         seconds
	Limit, Canary, Failures, FailuresPercent, OfflinePercent    number
	Stages                                                      text
	Rest, BatchTime, FirmwareDelay, StatusInterval, TopologyGap seconds

	table []setting
	given map[string]bool // set by the command line or the environment
	base  *Options        // without the stored config; nil before it is read
}

// setting is one flag.
type setting struct {
	name  string // with '-'
	value value
	about string
	whose audience
}

// audience is the set of commands that have a flag.
type audience int

const (
	storing audience = iota // every command that opens the store
	serving                 // only the controller itself
)

// Values of --auth.
const (
	authToken = "token"
	AuthNone  = "none"
)

// rolloutSettings returns the flags of staged rollouts.
func (o *Options) rolloutSettings() []setting {
	return []setting{
		{"config-batch-timeout-s", &o.BatchTime, "timeout of a batch in seconds", serving},
		{"config-rollout-batch-limit", &o.Limit, "maximum number of nodes in a batch; 0 for no limit", serving},
		{"config-rollout-canary", &o.Canary, "maximum number of nodes in the first batch; 0 for the limit of all others",
			serving},
		{"config-rollout-failures", &o.Failures, "number of nodes that may fail before a staged rollout halts", serving},
		{"config-rollout-failures-percent", &o.FailuresPercent,
			"the same in percent of the nodes tried so far; the larger of both applies", serving},
		{"config-rollout-offline-percent", &o.OfflinePercent,
			"percentage of nodes that may go offline before they apply a change and wait for a later batch", serving},
		{"config-rollout-rest-s", &o.Rest, "pause between two batches in seconds", serving},
		{"config-rollout-stages", &o.Stages,
			"cumulative percentages of nodes outside the topology that have a change after each batch, separated by commas",
			serving},
	}
}

// NewOptions returns the defaults: those of the controller's own config, if it has the flag.
func NewOptions() *Options {
	o := &Options{Fleet: "default", Joins: 1, AuditMB: 512, PerAddress: 1024, FactsMemory: configdb.DefaultMemory >> 20,
		FactsNodeVersions: 50, FactsNodesMB: 16 << 10, KeystoneWindow: number(keystone.DefaultWindow / time.Second),
		certificates: monthly, given: map[string]bool{}}
	o.KeystoneRoles = list{"admin=admin", "member=operator", "_member_=operator", "reader=viewer"}
	o.table = slices.Concat([]setting{
		{"data-dir", &o.DataDir, "folder of the embedded store, the certificates and the tokens", storing},
		{"etcd", &o.Etcd, "addresses of the etcd members that hold the store (default: a file in the data folder)",
			storing},
		{"etcd-ca", &o.EtcdCA, "PEM file of the CAs of the etcd members", storing},
		{"etcd-cert", &o.EtcdCert, "PEM file of the client certificate for etcd", storing},
		{"etcd-key", &o.EtcdKey, "PEM file of its key", storing},
		{"etcd-user", &o.EtcdUser, "name of the etcd user", storing},
		{"etcd-password-file", &o.EtcdPasswordFile, "file of the etcd user's password", storing},
		{"fleet", &o.Fleet, "name of the fleet, several of which may share an etcd", storing},
		{"replica", &o.Replica,
			"name of this controller in the fleet; kept in the data folder (default: generated at the first start)",
			storing},
		{"base-dir", &o.BaseDir, "folder of base, firmware and hardware layers, in addition to the embedded ones", storing},
		{"metadata", &o.Metadata, "metadata file of the nodes' config, in addition to the embedded one; repeatable", storing},
		{"listen", &o.Listen, "address and port of the API", serving},
		{"node-listen", &o.NodeListen, "address and port that nodes connect to", storing},
		{"node-host", &o.NodeHost,
			"host names and addresses of this controller for its certificate; join commands contain the first one", storing},
		{"auth", &o.Auth, "authentication of the API: token, or none for plain HTTP on a loopback address", serving},
	}, o.loginSettings(), []setting{
		{"client-ca-file", &o.ClientCAFile,
			"PEM file of another CA, such as Puppet's, whose certificates name nodes of ConfigDB by their CN", serving},
		{"client-crl-file", &o.ClientCRLFile, "PEM file of that CA's revoked certificates", serving},
		{"ca-cert", &o.CACert, "PEM file of an external CA (default: the controller creates its own)", storing},
		{"ca-key", &o.CAKey, "PEM file of its key", storing},
		{"actions", &o.Actions, "table of commands for the actions of the controller's config (default " + defaultActions +
			", if it exists)", serving},
		{"joins-per-second", &o.Joins,
			"joins per second from one address, after a burst of 20 times as many; raise it for a fleet behind one NAT",
			serving},
		{"v", &o.V, "log verbosity: 0, or 1 or more for everything", serving},
	}, o.seedSettings(), o.traceSettings(), o.doorSettings(),
		o.factsSettings(), o.certificateSettings(), o.rolloutSettings())
	for name, v := range fileFlags(schema.ControllerDefault()) {
		if s, ok := o.find(name); ok {
			_ = s.value.Set(v.(string)) // a test sets each of them
		}
	}
	return o
}

// find returns a flag by its name, with '-' or '_'.
func (o *Options) find(name string) (setting, bool) {
	name = dashes(name)
	i := slices.IndexFunc(o.table, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}, false
	}
	return o.table[i], true
}

func dashes(name string) string { return strings.ReplaceAll(name, "_", "-") }

// BindStore adds the flags of every command that opens the store.
func (o *Options) BindStore(cmd *cobra.Command) {
	o.bind(cmd, func(s setting) bool { return s.whose == storing })
}

// BindLayers adds the flags for layers and metadata in addition to the embedded ones.
func (o *Options) BindLayers(cmd *cobra.Command) {
	o.bind(cmd, func(s setting) bool { return s.name == "base-dir" || s.name == "metadata" })
}

// bindAll adds all flags.
func (o *Options) bindAll(cmd *cobra.Command) {
	o.bind(cmd, func(setting) bool { return true })
	cmd.Flags().Var(new(text), "undefok", "names of flags to ignore if unknown, separated by commas")
}

func (o *Options) bind(cmd *cobra.Command, has func(setting) bool) {
	for _, s := range o.table {
		if !has(s) {
			continue
		}
		f := cmd.Flags()
		f.Var(&onCommandLine{value: s.value}, s.name, s.about)
		if _, ok := s.value.(*boolean); ok {
			f.Lookup(s.name).NoOptDefVal = "true"
		}
	}
}

// onCommandLine is a list whose first value on the command line replaces the default.
type onCommandLine struct {
	value
	said bool
}

func (v *onCommandLine) Set(s string) error {
	if l, ok := v.value.(*list); ok && !v.said {
		*l = nil
	}
	v.said = true
	return v.value.Set(s)
}

// Resolve reads the environment for flags that are not on the command line, and checks all values.
func (o *Options) Resolve(cmd *cobra.Command, env func(string) string) error {
	var faults []error
	for _, s := range o.table {
		f := cmd.Flags().Lookup(s.name)
		if f == nil {
			continue
		}
		o.given[s.name] = f.Changed
		name := envName(s.name)
		if v := env(name); v != "" && !f.Changed {
			o.given[s.name] = true
			if err := replace(s.value, v); err != nil {
				faults = append(faults, term.Usagef("%s: %w", name, err))
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	return o.check()
}

func replace(v value, text string) error {
	if l, ok := v.(*list); ok {
		*l = nil
	}
	return v.Set(text)
}

// check returns all invalid values together.
func (o *Options) check() error {
	var faults []error
	no := func(err error) { faults = append(faults, err) }
	if o.DataDir == "" {
		no(term.Required("--data-dir", ""))
	} else if abs, err := filepath.Abs(string(o.DataDir)); err == nil {
		o.DataDir = text(abs)
	}
	if o.Auth != authToken && o.Auth != AuthNone {
		no(term.NotOneOf("--auth", string(o.Auth), []string{authToken, AuthNone}))
	}
	for _, l := range []struct {
		name string
		addr text
	}{{"listen", o.Listen}, {"node-listen", o.NodeListen}} {
		if _, _, err := net.SplitHostPort(string(l.addr)); err != nil {
			no(term.Invalid("--"+l.name, string(l.addr), "ADDRESS:PORT"))
		} else if l.name == "listen" && o.Auth == AuthNone && !loopback(string(l.addr)) {
			no(term.Invalid("--listen", string(l.addr),
				"a loopback address such as 127.0.0.1:8443 with --auth none, which gives every client the rights of an "+
					"administrator"))
		}
	}
	if o.CACert == "" && o.CAKey != "" || o.CACert != "" && o.CAKey == "" {
		no(term.RequiredTogether("--ca-cert", "--ca-key"))
	}
	if len(o.Etcd) == 0 && (o.EtcdCA != "" || o.EtcdCert != "" || o.EtcdKey != "" || o.EtcdUser != "") {
		no(term.Required("--etcd", "the other --etcd-… flags need the addresses of the etcd members"))
	}
	if o.Joins < 1 {
		no(term.Invalid("--joins-per-second", int(o.Joins), "1 or more"))
	}
	o.checkListeners(no)
	o.checkAccess(no)
	o.checkFacts(no)
	o.checkCertificates(no)
	return errors.Join(faults...)
}

// loopback reports whether an address is certainly this machine's. A name is not, since a resolver could map it to
// another address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || host == "localhost"
}

// seedForm converts arguments from the seed's form: it replaces '_' in the names of flags by '-', and drops unknown
// flags that --undefok names. known reports whether a flag exists.
func seedForm(args []string, known func(name string) bool) []string {
	ignored := map[string]bool{}
	for i, arg := range args {
		name, value, has := strings.Cut(arg, "=")
		if name != "--undefok" {
			continue
		}
		if !has && i+1 < len(args) {
			value = args[i+1]
		}
		for n := range strings.SplitSeq(value, ",") {
			ignored[dashes(strings.TrimSpace(n))] = true
		}
	}
	var out []string
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		flag, long := strings.CutPrefix(arg, "--")
		if !long {
			out = append(out, arg)
			continue
		}
		name, value, has := strings.Cut(flag, "=")
		name = dashes(name)
		if ignored[name] && !known(name) {
			continue
		}
		if arg = "--" + name; has {
			arg += "=" + value
		}
		out = append(out, arg)
	}
	return out
}
