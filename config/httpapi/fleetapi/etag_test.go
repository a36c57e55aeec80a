package fleetapi

import (
	"strings"
	"testing"
)

func TestETags(t *testing.T) {
	h := Handler(&fake{}, WithTokens(fakeHash))
	for path, tag := range map[string]string{
		"layers/network": `"5"`, "layers/node": `"7"`, "layers/node/n2": `"3"`, "layers/node/n9": `"0"`, "layers/auto": `"7"`,
		"e2e/controller": `"6"`, "topology": `"8"`, "topology/nodes/n1": `"8"`, "topology/nodes": `"8"`,
		"layers/base": `"d3"`, "nodes/n1/config": `"d1"`, "config?paths=a": `"d2"`, "metadata": "", "nodes": "",
		"peers/p1": `"4"`, "peers/p2": `"0"`, "clusters/lab": `"6"`, "peers": "",
	} {
		if w := ask(h, asked{method: "GET", target: Prefix + path, token: "t-viewer"}); w.Code != 200 ||
			w.Header().Get("ETag") != tag {
			t.Errorf("%s: %d, ETag %s", path, w.Code, w.Header().Get("ETag"))
		}
	}
}

// The table is RFC 9110 §13.1.2: weak comparison, lists, and *.
func TestIfNoneMatchOfARead(t *testing.T) {
	h := Handler(&fake{}, WithTokens(fakeHash))
	for header, status := range map[string]int{
		`"5"`: 304, `W/"5"`: 304, `"4", "5"`: 304, `"4","5"`: 304, `*`: 304, ` "4" , W/"5" `: 304, `"a,b", "5"`: 304,
		`"4"`: 200, `5`: 200, `"5`: 200, `w/"5"`: 200, `"4", 5`: 200, ``: 200,
	} {
		w := ask(h, asked{method: "GET", target: Prefix + "layers/network", token: "t-viewer",
			header: map[string]string{"If-None-Match": header}})
		if w.Code != status || (w.Body.Len() == 0) != (status == 304) || w.Header().Get("ETag") != `"5"` {
			t.Errorf("If-None-Match: %s: %d %q %v", header, w.Code, w.Body, w.Header())
		}
	}
	w := ask(h, asked{method: "GET", target: Prefix + "topology", token: "t-viewer",
		header: map[string]string{"If-None-Match": `"8"`}})
	if w.Code != 200 {
		t.Errorf("what is alive changes without a revision: %d", w.Code)
	}
}

// The table is RFC 9110 §13.1.1: strong comparison, lists, and *. For one revision of one layer the backend compares,
// in its transaction.
func TestIfMatchOfAWrite(t *testing.T) {
	for _, c := range []struct {
		ask, match string
		status     int
		says       string
	}{
		{"PUT layers/network", `"4"`, 200, "if=map[network:4]"},
		{"PUT layers/network", `"4", "5"`, 200, "if=map[network:5]"},
		{"PUT layers/network", `"x","5"`, 200, "if=map[network:5]"},
		{"PUT layers/network", `*`, 200, "if=map[] "},
		{"PUT layers/network", `"3", "4"`, 412, "network: was written by revision 9 by ann at 2026-01-02T03:04:05Z"},
		{"PUT layers/network", `W/"5"`, 412, "by ann"},
		{"PUT layers/network", `"05"`, 412, "by ann"},
		{"PUT layers/network", `"x"`, 412, "by ann"},
		{"PUT layers/network", `5`, 400, "If-Match"},
		{"PUT layers/network", `"5`, 400, "If-Match"},
		{"PUT layers/network", `"5" "6"`, 400, "If-Match"},
		{"PUT layers/node/n9", `*`, 412, "never written"},
		{"PUT layers/node/n9", `"1", "2"`, 412, "never written"},
		{"PUT layers/node/n1", `"7"`, 200, "if=map[node/n1:7]"},
		{"DELETE layers/node/n1", `"6"`, 200, "if=map[node/n1:6]"},
		{"PATCH layers/node", `"7"`, 200, "if=map[node/n1:7 node/n2:3]"},
		{"PATCH layers/node", `"6"`, 412, "node/n1: was written"},
		{"PATCH layers/node", `*`, 200, "if=map[] "},
		{"DELETE layers/node?paths=n1.a,n2", `"7"`, 200, "if=map[node/n1:7 node/n2:3]"},
		{"DELETE layers/auto?nodes=n2&paths=a", `"3"`, 200, "if=map[auto/n2:3]"},
		{"DELETE layers/auto?paths=a", `"7"`, 200, "if=map[auto/n1:7 auto/n2:3]"},
		{"DELETE layers/auto?paths=a", `"2"`, 412, "auto/n1: was written"},
		{"PUT e2e/controller", `"6"`, 200, "if=map[e2e/controller:6]"},
		{"PATCH topology/nodes/n1", `"8"`, 200, "if=map[topology:8]"},
		{"PATCH topology/nodes/n1", `"7", "8"`, 200, "if=map[topology:8]"},
		{"PUT e2e/controller", `"7", "5"`, 412, "e2e/controller: was written"},
		{"DELETE peers/p1", `"4"`, 200, "if=map[peer/p1:4]"},
		{"DELETE peers/p1", `"3", "4"`, 200, "if=map[peer/p1:4]"},
		{"DELETE clusters/lab", `"5", "4"`, 412, "cluster/lab: was written"},
		{"DELETE peers/p9", `*`, 412, "never written"},
		{"POST history/3/revert", `"5"`, 400, "If-Match"},
		{"POST import", `*`, 400, "If-Match"},
	} {
		f := &fake{}
		method, path, _ := strings.Cut(c.ask, " ")
		body := `{"n1":{"a":1},"n2":{}}`
		if method == "DELETE" || path == "history/3/revert" || path == "import" {
			body = ""
		}
		if path == "import" {
			body = "{}"
		}
		w := ask(Handler(f, WithTokens(fakeHash)), asked{method: method,
			target: Prefix + path, body: body, token: "t-admin", header: map[string]string{"If-Match": c.match}})
		heard := f.taken()
		if w.Code != c.status || status2xx(w.Code) && !strings.Contains(heard, c.says) {
			t.Errorf("%s If-Match: %s: %d %s\n heard %s", c.ask, c.match, w.Code, w.Body, heard)
		}
		if !status2xx(w.Code) && (!strings.Contains(problemIn(t, w).Detail, c.says) || strings.Contains(heard, "Write")) {
			t.Errorf("%s If-Match: %s: %s\n heard %s", c.ask, c.match, w.Body, heard)
		}
	}
}

func status2xx(code int) bool { return code/100 == 2 }

func TestIfNoneMatchOfAWrite(t *testing.T) {
	for header, says := range map[string]string{`*`: "if=map[node/n1:0]", `"5"`: "", `5`: ""} {
		f := &fake{}
		w := ask(Handler(f, WithTokens(fakeHash)), asked{method: "PUT", target: Prefix + "layers/node/n1",
			body: "{}", token: "t-admin", header: map[string]string{"If-None-Match": header}})
		heard := f.taken()
		if (w.Code == 200) != (says != "") || !strings.Contains(heard, says) || says == "" && (w.Code != 400 || heard != "") {
			t.Errorf("If-None-Match: %s: %d, heard %s", header, w.Code, heard)
		}
	}
}
