package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"edgespan/platform/lab"
)

// prometheus is a Prometheus in the provider's namespace, with the scrape config and the alerts of deploy.
type prometheus struct {
	w      *world
	dir    string
	client *http.Client
}

// Times of these tests: the rules' own are minutes. A window has to contain what a test does within it.
const (
	promEvery  = "1s"
	promFor    = "1s"
	promWindow = "15s"
	alertTime  = 90 * time.Second // for an alert to fire or to clear on a busy machine
)

var window = regexp.MustCompile(`\[\d+m\]`)

// prometheus starts a Prometheus that scrapes the node and, if o is not nil, the controller as a viewer.
func (w *world) prometheus(o *office) *prometheus {
	w.Helper()
	p := &prometheus{w: w, dir: filepath.Join(w.Dir, "prometheus")}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		w.Fatal(err)
	}
	p.write("nodes.yaml", []any{map[string]any{"targets": []string{lab.NodeAt + ":9273"}}})
	config := p.read("scrape.yaml")
	config["global"] = map[string]any{"scrape_interval": promEvery, "scrape_timeout": promEvery, "evaluation_interval": promEvery}
	config["rule_files"] = []string{p.file("alerts.yaml")}
	var jobs []any
	for _, j := range list(config["scrape_configs"]) {
		job := j.(map[string]any)
		delete(job, "scrape_interval")
		switch {
		case job["file_sd_configs"] != nil:
			job["file_sd_configs"] = []any{map[string]any{"files": []string{p.file("nodes.yaml")}}}
		case o == nil:
			continue
		default:
			token := p.file("token")
			if err := os.WriteFile(token, []byte(o.run("operators", "add", "prometheus", "--role", "viewer").Out), 0o600); err != nil {
				w.Fatal(err)
			}
			job["tls_config"].(map[string]any)["ca_file"] = filepath.Join(o.dir, "ca.pem")
			job["authorization"].(map[string]any)["credentials_file"] = token
			job["static_configs"] = []any{map[string]any{"targets": []string{fmt.Sprint("192.0.2.1:", o.port)}}}
		}
		jobs = append(jobs, job)
	}
	config["scrape_configs"] = jobs
	p.write("prometheus.yaml", config)
	p.write("alerts.yaml", p.quickRules())
	p.start()
	return p
}

// quickRules returns the alerts with short times.
func (p *prometheus) quickRules() map[string]any {
	p.w.Helper()
	rules := p.read("alerts.yaml")
	for _, g := range list(rules["groups"]) {
		for _, r := range list(g.(map[string]any)["rules"]) {
			rule := r.(map[string]any)
			if rule["for"] != nil {
				rule["for"] = promFor
			}
			rule["expr"] = window.ReplaceAllString(rule["expr"].(string), "["+promWindow+"]")
		}
	}
	return rules
}

func list(v any) []any { all, _ := v.([]any); return all }

func (p *prometheus) file(name string) string { return filepath.Join(p.dir, name) }

// read reads a file of deploy/prometheus.
func (p *prometheus) read(name string) (doc map[string]any) {
	p.w.Helper()
	text, err := os.ReadFile("../../deploy/prometheus/" + name)
	if err == nil {
		err = yaml.Unmarshal(text, &doc)
	}
	if err != nil {
		p.w.Fatal(err)
	}
	return doc
}

func (p *prometheus) write(name string, doc any) {
	p.w.Helper()
	text, err := yaml.Marshal(doc)
	if err == nil {
		err = os.WriteFile(p.file(name), text, 0o600)
	}
	if err != nil {
		p.w.Fatal(err)
	}
}

// start checks the config and starts the process, which ends with the lab.
func (p *prometheus) start() {
	p.w.Helper()
	if out, err := exec.Command("promtool", "check", "config", p.file("prometheus.yaml")).CombinedOutput(); err != nil {
		p.w.Fatalf("promtool (make setup-tests installs it): %v\n%s", err, out)
	}
	log, err := os.Create(p.file("log"))
	if err != nil {
		p.w.Fatal(err)
	}
	defer log.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "ip", "netns", "exec", p.w.NS("isp"), "prometheus", "--config.file", p.file("prometheus.yaml"),
		"--storage.tsdb.path", p.file("data"), "--web.listen-address", "127.0.0.1:9090", "--log.level", "warn")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		cancel()
		p.w.Fatal(err)
	}
	p.w.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if p.w.Failed() {
			text, _ := os.ReadFile(p.file("log"))
			p.w.Logf("Prometheus's last words:\n%s", lastOf(string(text), 20))
		}
	})
	p.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (c net.Conn, err error) {
			err = p.w.inside("isp", func() (err error) {
				c, err = (&net.Dialer{}).DialContext(ctx, network, addr)
				return err
			})
			return c, err
		}}}
	p.w.Cleanup(p.client.CloseIdleConnections)
	p.w.eventuallyIn(alertTime, "Prometheus is ready", func() bool { _, err := p.get("/-/ready", nil); return err == nil })
}

// get asks Prometheus's API.
func (p *prometheus) get(path string, q url.Values) ([]byte, error) {
	r, err := p.client.Get("http://127.0.0.1:9090" + path + "?" + q.Encode())
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, text)
	}
	return text, err
}

// query returns the number of series that a query finds, and -1 without an answer.
func (p *prometheus) query(expr string) int {
	var a struct {
		Data struct{ Result []json.RawMessage }
	}
	text, err := p.get("/api/v1/query", url.Values{"query": {expr}})
	if err != nil || json.Unmarshal(text, &a) != nil {
		return -1
	}
	return len(a.Data.Result)
}

// alert is a firing alert.
type alert struct {
	State               string
	Labels, Annotations map[string]string
}

// firing returns the alerts that fire, by name; of each the last.
func (p *prometheus) firing() (map[string]alert, bool) {
	var a struct {
		Data struct{ Alerts []alert }
	}
	text, err := p.get("/api/v1/alerts", nil)
	if err != nil || json.Unmarshal(text, &a) != nil {
		return nil, false
	}
	out := map[string]alert{}
	for _, one := range a.Data.Alerts {
		if one.State == "firing" {
			out[one.Labels["alertname"]] = one
		}
	}
	return out, true
}

// quiet waits until targets are scraped and nothing fires.
func (p *prometheus) quiet(targets int) {
	p.w.Helper()
	p.w.eventuallyIn(alertTime, "all targets are scraped", func() bool { return p.query("up == 1") == targets })
	p.clear()
}

// fires waits until an alert fires, and checks its summary. Meanwhile it calls again.
func (p *prometheus) fires(name, summary string, again ...func()) {
	p.w.Helper()
	began := time.Now()
	var now map[string]alert
	defer func() {
		if p.w.Failed() {
			p.w.Logf("firing: %v", now)
		}
	}()
	p.w.eventuallyIn(alertTime, fmt.Sprintf("%s fires and says %q", name, summary), func() bool {
		for _, do := range again {
			do()
		}
		now, _ = p.firing()
		return strings.Contains(now[name].Annotations["summary"], summary) // the name of a network comes later than its state
	})
	p.w.Logf("%s fires after %v: %s", name, time.Since(began).Round(time.Millisecond), now[name].Annotations["summary"])
}

// clear waits until none of these alerts fires, without names until none does.
func (p *prometheus) clear(names ...string) {
	p.w.Helper()
	began := time.Now()
	var now map[string]alert
	defer func() {
		if p.w.Failed() {
			p.w.Logf("firing: %v", now)
		}
	}()
	p.w.eventuallyIn(alertTime, fmt.Sprintf("%v clear", names), func() bool {
		var answered bool
		if now, answered = p.firing(); !answered {
			return false
		}
		for _, name := range names {
			if now[name].State != "" {
				return false
			}
		}
		return len(names) > 0 || len(now) == 0
	})
	p.w.Logf("%v cleared after %v", names, time.Since(began).Round(time.Millisecond))
}

// shows asks each query of a dashboard, for all objects, and fails for one that finds nothing. A query that shows only
// what is above 0, or part of an answer, may find nothing.
func (p *prometheus) shows(dashboard string) {
	p.w.Helper()
	text, err := os.ReadFile("../../deploy/grafana/" + dashboard)
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		p.w.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", promWindow, "$node", ".*", "$network", ".*", "$adapter", ".*",
		"$controller", ".*")
	for _, panel := range d.Panels {
		for _, q := range panel.Targets {
			expr, n := fill.Replace(q.Expr), 0
			optional := strings.HasSuffix(expr, " > 0")
			p.w.eventually(panel.Title+": an answer to "+expr, func() bool {
				n = p.query(expr)
				return n > 0 || n == 0 && optional
			})
		}
	}
}
