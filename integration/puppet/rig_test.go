package puppet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// timeout is how long anything may take that must come.
const timeout = 3 * time.Minute

// node is the node of the seed's use cases.
const node = "node-1.domain.tld"

var (
	programs = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "puppet") })
	program  = sync.OnceValues(func() (string, error) { return built("edgespan-controller") })
	command  = sync.OnceValues(func() (string, error) { return built("edgespan") })
)

func built(name string) (string, error) {
	dir, err := programs()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s", "-o", path, "edgespan/cmd/"+name)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return path, nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := programs(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// module is the folder of the Puppet module.
func module(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../deploy/puppet")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// controller is a real one, that serves over TLS and knows its callers by tokens.
type controller struct {
	testing.TB
	dir    string // its data folder
	url    string
	token  string // file of the administrator's
	ca     string // file of the CA of its certificate
	client *http.Client
	stop   func() // ends it
}

func start(t testing.TB, more ...string) *controller {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{TB: t, dir: t.TempDir()}
	c.token, c.ca = filepath.Join(c.dir, "admin.token"), filepath.Join(t.TempDir(), "ca.pem")
	cmd := exec.Command(path,
		append([]string{"--data-dir", c.dir, "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"}, more...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	runs, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(io.TeeReader(said, &log)); lines.Scan(); {
			var now struct{ Msg, API string }
			if json.Unmarshal(lines.Bytes(), &now) == nil && now.Msg == "controller runs" {
				runs <- now.API
			}
		}
	}()
	c.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		_ = cmd.Wait() // it was killed
	})
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			t.Logf("controller: %s", log.String()[max(0, log.Len()-3000):])
		}
	})
	select {
	case api := <-runs:
		c.url = "https://" + api
	case <-ended:
		t.Fatalf("the controller has ended: %s", log.String())
	case <-time.After(timeout):
		t.Fatal("the controller does not run")
	}
	c.trust()
	return c
}

// trust takes the certificate of the fleet's CA out of the file that also has its key.
func (c *controller) trust() {
	c.Helper()
	text := c.read(filepath.Join(c.dir, "ca.pem"))
	pool := x509.NewCertPool()
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			c.write(c.ca, pem.EncodeToMemory(block))
		}
	}
	pool.AppendCertsFromPEM(c.read(c.ca))
	c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: timeout}
	c.Cleanup(c.client.CloseIdleConnections)
}

func (c *controller) read(file string) []byte {
	c.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		c.Fatal(err)
	}
	return text
}

func (c *controller) write(file string, text []byte) {
	c.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		c.Fatal(err)
	}
}

// ask sends a request to ConfigDB and gives its answer, which must have the status.
func (c *controller) ask(status int, method, path string, body any) []byte {
	c.Helper()
	got, text := c.answer(method, path, body)
	if got != status {
		c.Fatalf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
	return text
}

func (c *controller) answer(method, path string, body any) (status int, text []byte) {
	c.Helper()
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			c.Fatal(err)
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(c.Context(), method, c.url+"/api/v1/config"+path, sent)
	if err != nil {
		c.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", strings.TrimSpace(string(c.read(c.token))))
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.client.Do(r)
	if err != nil {
		c.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err = io.ReadAll(answer.Body); err != nil {
		c.Fatal(err)
	}
	return answer.StatusCode, text
}

// environment makes environment 1 with the level nodes and these resources.
func (c *controller) environment(resources ...string) {
	c.Helper()
	definitions := []map[string]string{}
	for _, name := range resources {
		definitions = append(definitions, map[string]string{"name": name})
	}
	c.ask(201, "POST", "/components", map[string]any{"name": "fuel", "resource_definitions": definitions})
	c.ask(201, "POST", "/environments",
		map[string]any{"id": 1, "components": []string{"fuel"}, "hierarchy_levels": []string{"nodes"}})
}

// put uploads values (or overrides) of a resource at a place: "" or "/nodes/NAME".
func (c *controller) put(place, resource, half string, body any) {
	c.Helper()
	c.ask(204, "PUT", "/environments/1"+place+"/resources/"+resource+"/"+half, body)
}

// example is a file of the module's examples, with the addresses and files of this test in it.
func (c *controller) example(name string) string {
	c.Helper()
	return strings.NewReplacer(
		"https://configdb.example.com:8443", c.url,
		"/etc/puppetlabs/puppet/configdb.token", c.token,
		"/etc/puppetlabs/puppet/configdb-ca.pem", c.ca,
		"/opt/puppetlabs/puppet/cache/configdb", filepath.Join(c.dir, "cache"),
	).Replace(string(c.read(filepath.Join(module(c.TB), "examples", name))))
}

// run runs a command and gives what it prints.
func run(t testing.TB, cmd *exec.Cmd) (out, said string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}
