package nodecli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

// column is one column of a kind's table: its head and where its text comes from.
type column struct {
	head string
	cell func(nodeapi.Resource) string
	wide bool // only with -o wide
}

func resourceTable(kind string, items []nodeapi.Resource, wide bool) *term.Table {
	t := &term.Table{Wide: wide}
	var used []column
	for _, c := range columns(kind) {
		if wide || !c.wide {
			used = append(used, c)
			t.Head = append(t.Head, c.head)
		}
	}
	for _, it := range items {
		row := make([]string, len(used))
		for i, c := range used {
			row[i] = c.cell(it)
		}
		t.Add(row...)
	}
	return t
}

// columns are the columns of a kind; fields go by their JSON names.
func columns(kind string) []column {
	id := column{head: "ID", cell: func(r nodeapi.Resource) string { return r.ID }}
	failure := column{head: "ERROR", cell: status("error")}
	switch kind {
	case "ni":
		return networkColumns(id)
	case "app":
		return []column{
			{head: "NAME", cell: displayName},
			id,
			{head: "STATE", cell: appState},
			{head: "VERSION", cell: status("targetVersion")},
			{head: "ADAPTERS", cell: adapterCount},
			{head: "IPS", cell: adapterIPs, wide: true},
			failure,
		}
	case "adapter":
		return adapterColumns()
	case "port":
		return portColumns()
	case "param":
		return []column{
			id,
			{head: "TARGET", cell: func(r nodeapi.Resource) string { return cmp.Or(spec("target")(r), status("target")(r)) }},
			{head: "STATE", cell: status("state")},
			{head: "ERROR", cell: status("error")},
		}
	case "config":
		return []column{
			{head: "SOURCE", cell: status("source")},
			{head: "GEN", cell: status("generation")},
			{head: "MD5", cell: status("md5")},
			{head: "JOURNAL", cell: status("journal")},
			{head: "FILE DIGEST", cell: status("fileDigest"), wide: true},
			failure,
		}
	case "pending":
		return pendingColumns()
	default: // actor
		return []column{
			id,
			{head: "STATE", cell: status("state")},
			{head: "RESTARTS", cell: status("restarts")},
			{head: "ERROR", cell: status("error")},
		}
	}
}

func portColumns() []column {
	return []column{
		{head: "LABEL", cell: func(r nodeapi.Resource) string { return r.ID }},
		{head: "IFNAME", cell: func(r nodeapi.Resource) string { return cmp.Or(status("ifName")(r), spec("ifName")(r)) }},
		{head: "STATE", cell: portState},
		{head: "UPLINK", cell: spec("uplink")},
		{head: "COST", cell: spec("cost"), wide: true},
		{head: "MTU", cell: status("mtu"), wide: true},
		{head: "ADDRESSES", cell: status("addresses")},
		{head: "DEFAULT ROUTE", cell: status("defaultRoute")},
		{head: "DNS", cell: status("dnsServers")},
		{head: "GATEWAYS", cell: status("gateways"), wide: true},
		{head: "DNS SOURCE", cell: status("dnsSource"), wide: true},
		{head: "DNS SKIPPED", cell: status("dnsSkipped"), wide: true},
		{head: "ERROR", cell: status("error")},
	}
}

func pendingColumns() []column {
	return []column{
		{head: "PENDING", cell: status("pending")},
		{head: "GENERATION", cell: status("generation")},
		{head: "SOURCE", cell: status("source")},
		{head: "REMAINING", cell: status("remaining")},
		{head: "SETTLED", cell: status("settled")},
		{head: "MANAGED", cell: status("managed")},
		{head: "IN FORCE", cell: status("inForce"), wide: true},
		{head: "CONTROLLER", cell: status("controller"), wide: true},
		{head: "LINKED", cell: status("linked"), wide: true},
		{head: "HELD", cell: status("held")},
		{head: "UNDONE", cell: status("undone")},
	}
}

func networkColumns(id column) []column {
	return []column{
		{head: "NAME", cell: displayName},
		id,
		{head: "STATE", cell: status("state")},
		{head: "BRIDGE", cell: status("bridge")},
		{head: "SUBNET", cell: spec("ipv4", "subnet")},
		{head: "PORT", cell: func(r nodeapi.Resource) string { return cmp.Or(status("port")(r), spec("port")(r)) }},
		{head: "GEN", cell: status("generation")},
		{head: "GATEWAY", cell: spec("ipv4", "gateway"), wide: true},
		{head: "DOMAIN", cell: spec("dns", "domain"), wide: true},
		{head: "ERROR", cell: networkFault},
	}
}

func adapterColumns() []column {
	return []column{
		{head: "APP", cell: func(r nodeapi.Resource) string { app, _, _ := strings.Cut(r.ID, "/"); return app }},
		{head: "INDEX", cell: func(r nodeapi.Resource) string { _, i, _ := strings.Cut(r.ID, "/"); return i }},
		{head: "NETWORK", cell: status("networkInstance")},
		{head: "IP", cell: status("ip")},
		{head: "MAC", cell: status("mac")},
		{head: "IFNAME", cell: status("ifName")},
		{head: "HOSTIF", cell: status("hostIfName")},
		{head: "STATE", cell: adapterState},
		{head: "VERSION", cell: status("targetVersion"), wide: true},
		{head: "ERROR", cell: status("error")},
	}
}

func status(path ...string) func(nodeapi.Resource) string {
	return func(r nodeapi.Resource) string { return text(term.Dig(r.Status, path...)) }
}

func spec(path ...string) func(nodeapi.Resource) string {
	return func(r nodeapi.Resource) string { return text(term.Dig(r.Spec, path...)) }
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case float64: // JSON has no other number; ours are whole
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = text(e)
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(v)
}

func displayName(r nodeapi.Resource) string {
	return cmp.Or(status("displayName")(r), spec("displayName")(r))
}

// networkFault is the error of a network, else its warning, which says so of itself: a
// network with one is Present.
func networkFault(r nodeapi.Resource) string {
	if w := status("warning")(r); w != "" {
		return cmp.Or(status("error")(r), "warning: "+w)
	}
	return status("error")(r)
}

func appState(r nodeapi.Resource) string {
	switch {
	case term.Dig(r.Status, "pending") != false: // also before there is a status
		return "pending"
	case term.Dig(r.Status, "activated") == true:
		return "ready"
	}
	return "inactive"
}

func adapterState(r nodeapi.Resource) string {
	switch {
	case status("error")(r) != "" && status("state")(r) == "WaitingForDependencies":
		return "waiting"
	case status("error")(r) != "":
		return "failed"
	case term.Dig(r.Status, "activated") == true:
		return "active"
	}
	return "inactive"
}

func portState(r nodeapi.Resource) string {
	switch {
	case term.Dig(r.Status, "exists") == false:
		return "missing"
	case term.Dig(r.Status, "up") == true:
		return "up"
	}
	return "down"
}

func adapterCount(r nodeapi.Resource) string {
	list, _ := term.Dig(r.Status, "adapters").([]any)
	active := 0
	for _, a := range list {
		if term.Dig(a, "activated") == true {
			active++
		}
	}
	return fmt.Sprintf("%d/%d", active, len(list))
}

func adapterIPs(r nodeapi.Resource) string {
	list, _ := term.Dig(r.Status, "adapters").([]any)
	var ips []string
	for _, a := range list {
		if ip := text(term.Dig(a, "ip")); ip != "" {
			ips = append(ips, ip)
		}
	}
	return strings.Join(ips, ",")
}
