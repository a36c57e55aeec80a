package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/actors/agent"
	"edgespan/actors/node/api"
	"edgespan/cmd/edgespan/clitest"
	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/nodeconf"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/platform/pki"
	"edgespan/platform/store"
)

// aMachine is what a machine says of itself.
type aMachine struct{}

func (aMachine) Read(context.Context) (netstate.Facts, error) {
	return netstate.Facts{Commands: map[string]bool{"dnsmasq": true},
		Listeners: []netstate.Listener{{Who: "named (4711)"}}}, nil
}

// knock knows an admin's token and the certificates of nodes.
type knock struct {
	clitest.FactsDoor
	callers *pki.Callers
}

func (k knock) Authenticate(r *http.Request) (configdbapi.Caller, error) {
	shown, err := k.callers.Identify(r.TLS)
	if err != nil || shown.Node == "" {
		return k.FactsDoor.Authenticate(r)
	}
	return configdbapi.Caller{Name: shown.Node, Role: configdbapi.Operator, Node: shown.Node}, nil
}

// memberOf are the credentials of a node of a fleet.
func memberOf(t *testing.T, ca *pki.Authority) *pki.Credentials {
	t.Helper()
	c, err := pki.OpenCredentials(t.TempDir(), uuid.New(), nil)
	if !errors.Is(err, pki.ErrNotJoined) {
		t.Fatal(err)
	}
	der, err := c.JoinRequest()
	if err != nil {
		t.Fatal(err)
	}
	r, err := pki.ParseRequest(der)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := ca.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Install(issued.Chain, ca.Roots()); err != nil {
		t.Fatal(err)
	}
	return c
}

func someTopics(t *testing.T) *api.Topics {
	t.Helper()
	journal, err := store.OpenJournal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = journal.Close() })
	topics, err := api.NewTopics(journal, nil)
	if err != nil {
		t.Fatal(err)
	}
	return topics
}

// factsByTLS serves ConfigDB as a controller does, and gives its URL and what an admin asks with.
func factsByTLS(t *testing.T, ca *pki.Authority) (where string, admin *configdbapi.Client) {
	t.Helper()
	callers, err := ca.Callers(pki.OtherCA{}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: clitest.FactsHandler(t, knock{callers: callers}), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(tls.NewListener(l, callers.TLS())) }()
	t.Cleanup(func() { _ = s.Close() })
	where = "https://" + l.Addr().String()
	trust := &http.Transport{TLSClientConfig: pki.PinnedTLS(ca.Pin(), "127.0.0.1", time.Now), ForceAttemptHTTP2: true}
	admin, err = configdbapi.NewClient(configdbapi.Options{URL: where, Transport: trust,
		Authorize: configdbapi.WithToken("secret")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	return where, admin
}

// TestANodeUploadsItsOwnFacts goes the way of a node: its config names an environment, and by its certificate it
// uploads what it is and what its config makes of it, again when the config changes, and nothing after its config
// names none.
func TestANodeUploadsItsOwnFacts(t *testing.T) {
	ca, err := pki.Open(pki.Options{Dir: t.TempDir(), Names: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	where, admin := factsByTLS(t, ca)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	none := configdbapi.WriteOptions{}
	if _, err := admin.CreateComponent(ctx, configdbapi.NewComponent{Name: "edgespan",
		Definitions: []configdbapi.NewDefinition{{Name: nodeFacts}, {Name: nodeGlobals}}}, none); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateEnvironment(ctx,
		configdbapi.NewEnvironment{ID: new(int64(5)), Components: []configdb.JSON{configdb.JSON("1")},
			Levels: []string{"nodes"}, Nodes: model.Nodes{SelfRegistration: true}}, none); err != nil {
		t.Fatal(err)
	}
	topics := someTopics(t)
	creds := memberOf(t, ca)
	id := creds.Node().String()
	i := informer{id, agent.NodeFacts{Name: "edge-1", Software: "EDGESPAN-0-1-0"}, aMachine{}, topics, creds, zap.NewNop()}
	stop := i.start()
	stopped := false
	defer func() {
		if !stopped {
			_ = stop(ctx)
		}
	}()
	sys, source := topics.SysParams.Publisher("config"), topics.Source.Publisher("config")
	configs := topics.NetworkConfig.Publisher("config")
	ni := uuid.New()
	say := func(environment int, md5, name string) {
		for _, err := range []error{
			configs.Publish("", ni.String(), netinst.NetworkInstanceConfig{UUID: ni, DisplayName: name}),
			sys.Publish("", "node",
				nodeconf.SysParams{Facts: nodeconf.FactsUpload{Environment: environment, URL: where, Seconds: 1}}),
			source.Publish("", "node", api.Source{Source: "controller", MD5: md5}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// uploaded waits for values of the globals, from a version on.
	uploaded := func(version uint64) {
		t.Helper()
		enough := errors.New("enough")
		err := admin.Watch(ctx, configdbapi.WatchOptions{FromStart: true}, time.Second, func(r model.Record) error {
			for _, c := range r.Changes {
				if c.Name == nodeGlobals && c.What == "values" && c.Version >= version {
					if r.Author != id {
						t.Errorf("by %s", r.Author)
					}
					return enough
				}
			}
			return nil
		})
		if !errors.Is(err, enough) {
			t.Fatal(err)
		}
	}
	say(5, "a", "web")
	uploaded(1)
	place := configdbapi.Place{Environment: 5, Levels: []model.LevelValue{{Level: "nodes", Value: id}},
		Resource: nodeFacts}
	got, err := admin.Read(ctx, place, model.Values, configdbapi.Read{Effective: true})
	if err != nil || !strings.Contains(got.Body.String(), `"name":"edge-1"`) ||
		!strings.Contains(got.Body.String(), `"commands":{"dnsmasq":true}`) || strings.Contains(got.Body.String(), "4711") {
		t.Errorf("%s %v", got.Body, err)
	}
	say(5, "b", "db")
	uploaded(2)
	if got := i.settings(); got.Config != "b" || got.Every != time.Second {
		t.Errorf("what a new config is known by: %+v", got)
	}
	place.Resource = nodeGlobals
	if got, err = admin.Read(ctx, place, model.Values,
		configdbapi.Read{Key: "networkInstances." + ni.String() + ".name"}); err != nil || got.Body.String() != `"db"` {
		t.Errorf("%s %v", got.Body, err)
	}
	// Each second it is uploaded, and what is the same makes no version.
	if all, err := admin.Versions(ctx, place, model.Values, 0, 0); err != nil || len(all) != 2 {
		t.Errorf("%+v %v", all, err)
	}
	stopped = true
	if err := stop(ctx); err != nil {
		t.Error(err)
	}
}

func TestWhereANodeFindsConfigDB(t *testing.T) {
	for _, c := range []struct {
		said, joined string
		want         []string
	}{
		{"", "a:8444,[::1]:9000", []string{"https://a:8443", "https://[::1]:8443"}},
		{"https://other/api/config", "a:8444", []string{"https://other/api/config"}},
		{"", "", nil},
	} {
		if got := factURLs(c.said, c.joined); strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%q %q: %v", c.said, c.joined, got)
		}
	}
	i := informer{topics: someTopics(t), log: zap.NewNop()}
	if err := i.topics.SysParams.Publisher("config").Publish("", "node",
		nodeconf.SysParams{Facts: nodeconf.FactsUpload{Environment: 1, Seconds: 10}}); err != nil {
		t.Fatal(err)
	}
	if s := i.settings(); s.Environment != 0 {
		t.Errorf("a node that has joined nothing uploads to %+v", s)
	}
}
