package configdbapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"edgespan/config/configdb/model"
	"edgespan/pubsub/ratelimit"
)

// A node may upload a limited number of bytes that change something, by any route; unchanged and refused content costs
// it nothing. People and other nodes are not limited by that.
func TestANodeUploadsOnlySoMuch(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]func(n int) asked{
		"values": func(n int) asked {
			return asked{method: "PUT", target: "resources/1/values",
				body: fmt.Sprintf(`{"n":%d,"a":%q}`, n, strings.Repeat("x", 4_000_000))}
		},
		"bulk": func(n int) asked {
			return asked{method: "POST", target: "bulk",
				body: fmt.Sprintf(`{"resources":{"r":{"values":{"n":%d,"a":%q}}}}`, n, strings.Repeat("x", 4_000_000))}
		},
		"keys": func(n int) asked {
			return asked{method: "PUT", target: "resources/1/values/keys/set", body: fmt.Sprintf(`[["n",%d]]`, n)}
		},
		"ways back": func(n int) asked {
			return asked{method: "POST", target: "resources/1/values/rollback", body: fmt.Sprintf(`{"version":%d}`, 1+n%2)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := Handler(newReal(t), door{})
			send := func(q asked, token string, node int) (int, http.Header) {
				q.token, q.target = token, fmt.Sprintf("environments/1/nodes/%d/", node)+q.target
				w := ask(h, q)
				return w.Code, w.Header()
			}
			for _, q := range []asked{
				{method: "POST", target: "components", body: `{"name":"c","resource_definitions":[{"name":"r"}]}`},
				{method: "POST", target: "environments", body: `{"components":["c"],"hierarchy_levels":["nodes"]}`},
				{method: "PUT", target: "environments/1/nodes/1", body: `{}`},
				{method: "PUT", target: "environments/1/nodes/1/resources/1/values", body: `{"v":1,"a":"` +
					strings.Repeat("y", 4_000_000) + `"}`},
				{method: "PUT", target: "environments/1/nodes/1/resources/1/values", body: `{"v":2,"a":"` +
					strings.Repeat("y", 4_000_000) + `"}`},
			} {
				if w := ask(h, q); w.Code >= 300 {
					t.Fatal(w.Code, w.Body)
				}
			}
			for range 9 {
				if code, _ := send(way(-2), "node", 1); code >= 300 { // unchanged after the first
					t.Fatal("the same again:", code)
				}
				if code, _ := send(asked{method: "PUT", target: "resources/1/values", body: "[" + strings.Repeat(" ", 1<<20)},
					"node", 1); code != 400 {
					t.Fatal("what is refused:", code)
				}
			}
			n := 0
			code, head := 200, http.Header{}
			for ; code < 300 && n < 9; n++ {
				code, head = send(way(n+1), "node", 1)
			}
			wait, err := strconv.Atoi(head.Get("Retry-After"))
			if n != 5 || code != http.StatusTooManyRequests || err != nil || wait < 10 || wait > 1000 {
				t.Errorf("upload %d: must be %d, again after %s s; 4 of 4 MB after the first one", n, code,
					head.Get("Retry-After"))
			}
			if code, _ := send(way(99), "admin", 1); code >= 300 {
				t.Errorf("an admin: %d", code)
			}
		})
	}
}

// What a busy replica has certainly not stored costs a node nothing, however often it retries; what may have been
// stored does.
func TestABusyUploadIsGivenBack(t *testing.T) {
	t.Parallel()
	for unsure, last := range map[bool]int{false: http.StatusServiceUnavailable, true: http.StatusTooManyRequests} {
		h := Handler(&full{err: &model.RequestError{Kind: model.Busy, Text: "too many writes wait already", Unsure: unsure}},
			door{})
		q := asked{method: "PUT", target: "environments/9/role/r/nodes/1/resources/1/values", token: "node", body: `{"a":"` +
			strings.Repeat("x", 4_000_000) + `"}`}
		for i := range 6 { // 24 MB
			want := http.StatusServiceUnavailable
			if i == 5 {
				want = last
			}
			if w := ask(h, q); w.Code != want {
				t.Errorf("unsure %v: upload %d: %d %s, want %d", unsure, i+1, w.Code, w.Body, want)
			}
		}
	}
}

// full is a fake that refuses writes.
type full struct {
	fake
	err error
}

func (f *full) Write(context.Context, WriteRequest) (model.Written, error) {
	return model.Written{}, f.err
}

// A caller who is not an admin may store a limited number of bytes that change something, by any route, and nothing
// while the store is scarce.
func TestAnOperatorWritesOnlySoMuch(t *testing.T) {
	t.Parallel()
	scarce := error(nil)
	h := Handler(newReal(t), door{}, WithStored(ratelimit.NewBuckets(1<<10, 160<<10), func() error { return scarce }))
	text := strings.Repeat("x", 15<<10)
	put := func(token string, n int) *httptest.ResponseRecorder {
		return ask(h, asked{method: "PUT", target: "environments/1/resources/1/values", token: token,
			body: fmt.Sprintf(`{"n":%d,"a":%q}`, n, text)})
	}
	for _, q := range []asked{
		{method: "POST", target: "components", body: `{"name":"c","resource_definitions":[{"name":"r"}]}`, token: "admin"},
		{method: "POST", target: "environments", body: `{"components":["c"],"hierarchy_levels":[]}`, token: "admin"},
	} {
		if w := ask(h, q); w.Code >= 300 {
			t.Fatal(w.Code, w.Body)
		}
	}
	for range 30 { // unchanged after the first
		if w := put("operator", 0); w.Code >= 300 {
			t.Fatal("the same again:", w.Code, w.Body)
		}
	}
	n := 1
	w := put("operator", n)
	for ; w.Code < 300 && n < 30; n++ {
		w = put("operator", n+1)
	}
	if wait, err := strconv.Atoi(w.Header().Get("Retry-After")); w.Code != http.StatusTooManyRequests || n < 8 || n > 12 ||
		err != nil || wait > 60 {
		t.Errorf("write %d of 16 KB: must be %d %s; 160 KB at once", n, w.Code, w.Body)
	}
	if w := put("admin", 99); w.Code >= 300 {
		t.Error("an admin:", w.Code, w.Body)
	}
	scarce = errors.New("1536 of 2048 MiB")
	if w := put("operator", 100); w.Code != http.StatusServiceUnavailable ||
		!strings.Contains(w.Body.String(), "only an admin can write: 1536") {
		t.Error("a scarce store:", w.Code, w.Body)
	}
	if w := put("admin", 101); w.Code >= 300 {
		t.Error("an admin, and a scarce store:", w.Code, w.Body)
	}
}
