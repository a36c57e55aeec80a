package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/examples"
	"edgespan/platform/lab"
)

// moved moves the client's adapter to another network by one apply, and checks that neither its name nor its address
// remains in the old network.
func (d *demoRun) moved(ctx context.Context) (string, error) {
	doc, err := d.lab.Config(examples.Demo)
	if err == nil {
		doc, err = onNetwork(doc, d.ex.client, d.ex.guest.id)
	}
	if err != nil {
		return "", err
	}
	old, name := d.ip, "client."+d.ex.home.domain
	if got, err := d.asked(ctx, name); err != nil || got != old.String() {
		return "", errors.Join(fmt.Errorf("before the move %s resolves to %q, not %s", name, got, old), err)
	}
	began := time.Now()
	if err := d.apply(ctx, string(doc)); err != nil {
		return "", err
	}
	if _, err := d.waitReady(ctx); err != nil {
		return "", err
	}
	took := time.Since(began)
	if _, err := d.lease(ctx, lab.AppClient, d.ex.client); err != nil {
		return "", err
	}
	if !d.ex.guest.subnet.Contains(d.ip) {
		return "", fmt.Errorf("its address is %s, outside of %s", d.ip, d.ex.guest.subnet)
	}
	for _, question := range [][]string{{name}, {"-x", old.String()}} {
		if got, err := d.asked(ctx, question...); err != nil || got != "" {
			return "", errors.Join(fmt.Errorf("its old network still answers %q for %s", got, strings.Join(question, " ")), err)
		}
	}
	return fmt.Sprintf("%s became %s in %s; the old address is free", old, d.ip, millis(took)), nil
}

// asked returns the answer of the home network's DNS to web, which remains there.
func (d *demoRun) asked(ctx context.Context, question ...string) (string, error) {
	argv := append([]string{"dig", "+short", "+tries=1", "+time=3", "@" + d.ex.home.gateway.String()}, question...)
	r, err := d.lab.Exec(ctx, lab.AppWeb, argv...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s: status %d: %s", strings.Join(argv, " "), r.Code, strings.TrimSpace(r.Out+r.Err))
	}
	return strings.TrimSpace(r.Out), err
}

// isolation shows that the client reaches another network of the same node only as its rules permit, and that the new
// network has a way out.
func (d *demoRun) isolation(ctx context.Context) (string, error) {
	if _, err := d.fetch(ctx, "http://"+lab.WebName+"/", "you are "+lab.NodeAt+":"); err != nil {
		return "", err
	}
	if err := d.unanswered(ctx, "http://"+d.webIP.String()+"/"); err != nil {
		return "", err
	}
	return "no answer from " + d.webIP.String() + " in 2 s, and " + lab.WebName + " answers", nil
}

// onNetwork returns a config in which all adapters of an app are on one network.
func onNetwork(doc []byte, app, network string) ([]byte, error) {
	tree, faults := config.ParseObject(doc)
	if faults != nil {
		return nil, fmt.Errorf("read config: %w", faults)
	}
	v, _ := config.Lookup(tree, []string{"appNetworks", app, "adapters"})
	adapters, _ := v.(config.Object)
	if len(adapters) == 0 {
		return nil, fmt.Errorf("move app %s: no adapter", app)
	}
	for index, v := range adapters {
		adapter, ok := v.(config.Object)
		if !ok {
			return nil, fmt.Errorf("move app %s: adapter %s: must be an object", app, index)
		}
		adapter["networkInstance"] = network
	}
	return json.Marshal(tree)
}

// example is what the steps need of examples/demo.yaml: the network of both apps, the network that the client moves
// to, and the apps' UUIDs.
type example struct {
	home, guest exampleNetwork
	web, client string
}

type exampleNetwork struct {
	id, domain string
	subnet     netip.Prefix
	gateway    netip.Addr
}

// targets returns all objects that `wait` can wait for.
func (e example) targets() []string {
	return []string{"ni/" + e.home.id, "ni/" + e.guest.id, "app/" + e.web, "app/" + e.client}
}

func readExample(doc []byte) (example, error) {
	var tree struct {
		NetworkInstances map[string]struct {
			DisplayName string
			IPv4        struct{ Subnet, Gateway string }
			DNS         struct{ Domain string }
		}
		AppNetworks map[string]struct{ DisplayName string }
	}
	o, faults := config.ReadObject(doc)
	if faults != nil {
		return example{}, fmt.Errorf("read example: %w", faults)
	}
	if err := json.Unmarshal(config.AppendCanonical(nil, o), &tree); err != nil {
		return example{}, fmt.Errorf("read example: %w", err)
	}
	var ex example
	for id, ni := range tree.NetworkInstances {
		subnet, err := netip.ParsePrefix(ni.IPv4.Subnet)
		if err != nil {
			return example{}, fmt.Errorf("read example: %w", err)
		}
		n := exampleNetwork{id: id, domain: ni.DNS.Domain, subnet: subnet}
		n.gateway = subnet.Addr().Next() // the default (docs/configuration.md)
		if ni.IPv4.Gateway != "" {
			n.gateway = netip.MustParseAddr(ni.IPv4.Gateway)
		}
		switch ni.DisplayName {
		case "demo":
			ex.home = n
		case "guest":
			ex.guest = n
		}
	}
	for id, app := range tree.AppNetworks {
		switch app.DisplayName {
		case "web":
			ex.web = id
		case "client":
			ex.client = id
		}
	}
	if ex.home.id == "" || ex.guest.id == "" || ex.web == "" || ex.client == "" {
		return example{}, errors.New("read example: the networks demo and guest and the apps web and client are expected")
	}
	return ex, nil
}
