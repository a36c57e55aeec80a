package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/layers/metadata"
)

const canary = `Canary+7/x"<&é=`

// Known secrets go in every form in which a text may have them.
func TestAKnownSecretGoesInEveryForm(t *testing.T) {
	t.Parallel()
	var r Redactor
	r.Learn(config.Object{"a": []any{canary}, "pin": json.Number("48211")})
	quoted, _ := json.Marshal(canary)
	twice, _ := json.Marshal(string(quoted))
	texts := map[string]string{
		"plain": canary, "json": string(quoted), "json in json": string(twice), "go": fmt.Sprintf("%q", canary),
		"query": url.QueryEscape(canary), "path": url.PathEscape(canary), "hex": hex.EncodeToString([]byte(canary)),
		"number": "pin is 48211.",
	}
	for shift := range 4 {
		whole := "abcd"[:shift] + canary + "tail"
		texts[fmt.Sprint("base64 at ", shift)] = base64.StdEncoding.EncodeToString([]byte(whole))
		texts[fmt.Sprint("base64url at ", shift)] = base64.RawURLEncoding.EncodeToString([]byte(whole))
	}
	for name, text := range texts {
		got := string(r.Text([]byte("before " + text + " after")))
		if !strings.Contains(got, Mark) || !strings.Contains(got, "before ") || !strings.Contains(got, " after") ||
			strings.Contains(got, "Canary") || strings.Contains(got, "48211") {
			t.Errorf("%s: %q", name, got)
		}
		for _, part := range []string{hex.EncodeToString([]byte("Canary")), base64.StdEncoding.EncodeToString([]byte("Canary"))} {
			if strings.Contains(got, part) {
				t.Errorf("%s: %q has %s", name, got, part)
			}
		}
	}
}

// What nothing declares is known by its form.
func TestTheFormsOfUnknownSecrets(t *testing.T) {
	t.Parallel()
	var r Redactor
	for in, want := range map[string]string{
		"get http://bob:hunter2@host:80/x failed":      "get http://[redacted]@host:80/x failed",
		`{"url":"https:\/\/hunter2@h/"}`:               `{"url":"https:\/\/[redacted]@h/"}`,
		"see https://host/a@b":                         "see https://host/a@b",
		"token esj_hunter2hunter2":                     "token [redacted]",
		"Authorization: Bearer hunter2hunter2\nnext":   "Authorization: [redacted]\nnext",
		`{"headers":{"Authorization":["hunter2 x"]}}`:  `{"headers":{"Authorization":["[redacted]"]}}`,
		`curl -H "bearer hunter2hunter2"`:              `curl -H "bearer [redacted]"`,
		"DB_PASSWORD=hunter2 next":                     "DB_PASSWORD=[redacted] next",
		`"apiKey": "hunter2 is long", "a": 1`:          `"apiKey": [redacted], "a": 1`,
		`{"msg":"{\"password\":\"hunter2 x\",\"a\":1}`: `{"msg":"{\"password\":[redacted],\"a\":1}`,
		"run --join-token hunter2 --name x":            "run --join-token [redacted] --name x",
		"PrivateKey = hunter2=\nAddress = 10.0.0.1":    "PrivateKey = [redacted]\nAddress = 10.0.0.1",
		"jwt eyJhbGciOiJI.eyJzdWIiOiJI.hunter2":        "jwt [redacted]",
		"a\n-----BEGIN EC PRIVATE KEY-----\nhunter2\n-----END EC PRIVATE KEY-----\nb": "a\n" +
			"-----BEGIN EC PRIVATE KEY-----[redacted]\nb",
		"-----BEGIN PRIVATE KEY-----\nhunter2":            "-----BEGIN PRIVATE KEY-----[redacted]",
		"hunter2\n-----END PRIVATE KEY-----\nb":           "[redacted]\nb",
		"-----BEGIN PGP PRIVATE KEY BLOCK-----\nhunter2":  "-----BEGIN PGP PRIVATE KEY BLOCK-----[redacted]",
		"get https://host/p?key=hunter2&x=1 failed":       "get https://host/p?key=[redacted]&x=1 failed",
		"get https://host/p?x=1&sig=hunter2":              "get https://host/p?x=1&sig=[redacted]",
		`10.0.0.1 %any : PSK "hunter2 x"`:                 `10.0.0.1 %any : PSK [redacted]`,
		`carol : EAP hunter2`:                             `carol : EAP [redacted]`,
		`client-key-data: LS0tLS1CRUdJTihunter2hunter2==`: `client-key-data: [redacted]`,
		"auth_pass=hunter2 MYSQL_PWD=hunter2 x":           "auth_pass=[redacted] MYSQL_PWD=[redacted] x",
		"clone with ghp_hunter2hunter2hunter2 ok":         "clone with [redacted] ok",
		`{"argv":["/x","--password","hunter2","-v"]}`:     `{"argv":["/x","--password",[redacted],"-v"]}`,
		`{"name":"DB_PASSWORD","value":"hunter2"}`:        `{"name":"DB_PASSWORD","value":[redacted]}`,
		"tunnel bypass: yes, mapping=3, e.g. psk expired": "tunnel bypass: yes, mapping=3, e.g. psk expired",
		"uplink wan has 10.0.0.1/24, monkey business 5 %": "uplink wan has 10.0.0.1/24, monkey business 5 %",
	} {
		got := string(r.Text([]byte(in)))
		if strings.Contains(got, "hunter2") || got != want && !strings.Contains(want, "[redacted]=") {
			t.Errorf("%q:\n got %q\nwant %q", in, got, want)
		}
	}
}

func object(t *testing.T, text string) config.Object {
	t.Helper()
	o, faults := config.ParseObject([]byte(text))
	if faults != nil {
		t.Fatal(faults)
	}
	return o
}

// A document loses what the metadata declares secret, what has the name of a secret, and what it does not know.
func TestADocumentIsMaskedAndItsSecretsLearnt(t *testing.T) {
	t.Parallel()
	m, faults := metadata.Parse(object(t, `{"vault":{"pin":{"desc":"x","type":"STRING","action":"NO_ACTION","secret":true},
		"size":{"desc":"x","type":"INTEGER","action":"NO_ACTION"},
		"url":{"desc":"x","type":"STRING","action":"NO_ACTION"}}}`), metadata.Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	var r Redactor
	got := r.Document(m, object(t, `{"vault":{"pin":"canary1","size":3,"url":"http://u:canary4@h"},
		"other":{"password":"canary2","what":"canary3","list":["canary3"],"none":null}}`))
	shown, _ := json.Marshal(got)
	text := string(r.Text(shown))
	want := `{"other":{"list":{"$masked":true},"none":null,"password":{"$masked":true},"what":{"$masked":true}},` +
		`"vault":{"pin":{"$masked":true},"size":3,"url":"http://[redacted]@h"}}`
	if text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if log := string(r.Text([]byte("canary1 canary2 canary3"))); log != "[redacted] [redacted] canary3" {
		t.Errorf("a log: %s", log)
	}
}

// JSON of unknown origin loses what has the name of a secret, environments included.
func TestJSONIsMaskedByNames(t *testing.T) {
	t.Parallel()
	var r Redactor
	got, err := r.JSON([]byte(`[{"executor":{"env":{"A":"canary"},"n":12345678901234567890}}]`))
	if err != nil || strings.Contains(string(got), "canary") || !strings.Contains(string(got), "12345678901234567890") {
		t.Errorf("%s, %v", got, err)
	}
	if log := string(r.Text([]byte("A is canary"))); log != "A is "+Mark {
		t.Errorf("%s", log)
	}
	got, err = r.JSON([]byte("{\"a\":1}\n{\"token\":\"x\"}\n{\"env\":{\"A\":\"cana"))
	if err == nil || string(got) != "{\"a\":1}\n{\"token\":{\"$masked\":true}}\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// A secret that is not below a key with its name is known by what is beside it.
func TestJSONIsMaskedByWhatIsBesideASecret(t *testing.T) {
	t.Parallel()
	var r Redactor
	got, err := r.JSON([]byte(`{"args":["--db-password","canary1","--token-file","/file","-v"],"list":[` +
		`{"name":"PGPASS","value":"canary2"},{"value":"canary3","key":"api-key"},{"name":"size","value":"large"}],` +
		`"dbPass":"canary4","snmpPwd":"canary5","bypass":"no"}`))
	want := `{"args":["--db-password",{"$masked":true},"--token-file","/file","-v"],"bypass":"no","dbPass":{"$masked":true},` +
		`"list":[{"name":"PGPASS","value":{"$masked":true}},{"key":"api-key","value":{"$masked":true}},` +
		`{"name":"size","value":"large"}],"snmpPwd":{"$masked":true}}`
	var v any
	if err != nil || json.Unmarshal(got, &v) != nil {
		t.Fatal(string(got), err)
	}
	if flat, _ := json.Marshal(v); string(flat) != want {
		t.Errorf("got  %s\nwant %s", flat, want)
	}
	if log := string(r.Text([]byte("canary1 canary2 canary3 canary4 canary5"))); strings.Contains(log, "canary") {
		t.Errorf("%s", log)
	}
}

// A log has the lines of a secret of several lines one by one.
func TestTheLinesOfALongSecretGoOneByOne(t *testing.T) {
	t.Parallel()
	var r Redactor
	r.Learn("-----BEGIN PRIVATE KEY-----\ncanaryline1\n  canaryline2\r\nab\n-----END PRIVATE KEY-----\n")
	got := string(r.Text([]byte("1: canaryline1\n2: canaryline2\nab\n-----BEGIN PRIVATE KEY-----\ncanary of another\n")))
	if want := "1: [redacted]\n2: [redacted]\nab\n-----BEGIN PRIVATE KEY-----[redacted]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A config may have as many secrets as it likes; those beyond the bound are counted.
func TestSecretsAreBounded(t *testing.T) {
	t.Parallel()
	var r Redactor
	for i := range maxSecrets + 3 {
		r.Learn(fmt.Sprintf("secret-%d", i))
	}
	if r.Forgotten() != 3 {
		t.Errorf("%d forgotten", r.Forgotten())
	}
}

func FuzzNoFormOfASecretIsLeft(f *testing.F) {
	f.Add("canary", "a", "b")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		if len(secret) < minSecret || strings.Contains(Mark, secret) {
			t.Skip()
		}
		var r Redactor
		r.Learn(secret)
		got := string(r.Text([]byte(before + "\n" + secret + "\n" + after)))
		if strings.Contains(got, "\n"+secret+"\n") {
			t.Errorf("%q has %q", got, secret)
		}
	})
}
