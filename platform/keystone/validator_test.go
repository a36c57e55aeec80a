package keystone

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/platform/keystone/keystonetest"
)

// inside is a transport without a network, so that the fake clock of a bubble goes on while
// an answer takes its time.
type inside struct{ h http.Handler }

func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		i.h.ServeHTTP(w, r)
	}()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case broken := <-done:
		if broken != nil {
			return nil, errors.New("connection reset by peer")
		}
	}
	return w.Result(), nil
}

// cloud is a Keystone with people in it, and a validator of it.
type cloud struct {
	*keystonetest.Keystone
	*Validator
	reported []string
}

func newCloud(t *testing.T, opts Options) *cloud {
	t.Helper()
	c := &cloud{Keystone: &keystonetest.Keystone{URL: "http://keystone.test:5000", Users: map[string]keystonetest.User{
		"configdb": {Password: "own", Roles: map[string][]string{"services": {"admin"}}},
		"anna":     {Password: "a", Roles: map[string][]string{"services": {"admin", "member"}, "other": {"reader"}}},
	}}}
	opts.URL, opts.Transport = "http://keystone.test:5000/v3", inside{c.Keystone}
	opts.Own = Credentials{User: "configdb", Project: "services"}
	if opts.Secret == nil {
		opts.Secret = func() (string, error) { return "own", nil }
	}
	opts.Changed = func(err error) { c.reported = append(c.reported, fmt.Sprint(err)) }
	v, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	c.Validator = v
	return c
}

// is says what a token stands for: "anna services admin,member", or why it does not.
func (c *cloud) is(t *testing.T, token string) string {
	id, err := c.Validate(t.Context(), token)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(id.User, " ", id.Project, " ", strings.Join(id.Roles, ","))
}

// broken makes Keystone break off every answer while it is true.
func (c *cloud) broken(on *bool) {
	c.Before = func(http.ResponseWriter, *http.Request) bool {
		if *on {
			panic("away")
		}
		return false
	}
}

func TestATokenIsWhatKeystoneSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, Options{})
		anna := c.Issue("anna", "services")
		for range 3 {
			if got := c.is(t, anna); got != "anna services admin,member" {
				t.Fatal(got)
			}
		}
		if c.Asked("POST") != 1 || c.Asked("GET") != 1 {
			t.Errorf("three questions: %d logins, %d validations", c.Asked("POST"), c.Asked("GET"))
		}
		if got := c.is(t, c.Issue("anna", "other")); got != "anna other reader" {
			t.Error(got)
		}
		if got := c.is(t, c.Issue("anna", "")); got != "anna  " {
			t.Errorf("of no project: %s", got)
		}
		id, err := c.Validate(t.Context(), anna)
		if err != nil || id.UserID != "id-of-anna" || id.UserDomain != "Default" || id.ProjectID != "id-of-services" ||
			id.ProjectDomain != "Default" || id.ProjectDomainID != "default" || time.Until(id.Expires) != time.Hour {
			t.Errorf("%+v %v", id, err)
		}
		asked := c.Asked("GET")
		for _, bad := range []string{"", "a b", "ü", "a\nb", strings.Repeat("x", longestToken+1)} {
			if _, err := c.Validate(t.Context(), bad); !errors.Is(err, ErrToken) || c.Asked("GET") != asked {
				t.Errorf("%.20q: %v", bad, err)
			}
		}
		if _, err := c.Validate(t.Context(), "unknown"); !errors.Is(err, ErrToken) {
			t.Errorf("unknown: %v", err)
		}
		if c.reported != nil {
			t.Errorf("told %q", c.reported)
		}
	})
}

func TestARevokedTokenLivesNoLongerThanTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, Options{Window: 40 * time.Second})
		anna := c.Issue("anna", "services")
		if got := c.is(t, anna); got != "anna services admin,member" {
			t.Fatal(got)
		}
		c.Revoke(anna)
		time.Sleep(40*time.Second - time.Nanosecond)
		if got := c.is(t, anna); got != "anna services admin,member" {
			t.Errorf("within the window: %s", got)
		}
		time.Sleep(time.Nanosecond)
		if _, err := c.Validate(t.Context(), anna); !errors.Is(err, ErrToken) {
			t.Errorf("after it: %v", err)
		}
	})
}

func TestATokenExpiresWithinTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, Options{})
		c.Life = 30 * time.Second
		anna := c.Issue("anna", "services")
		if got := c.is(t, anna); got != "anna services admin,member" {
			t.Fatal(got)
		}
		time.Sleep(30 * time.Second)
		if _, err := c.Validate(t.Context(), anna); !errors.Is(err, ErrToken) {
			t.Errorf("%v", err)
		}
	})
}

func TestTheOwnTokenIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, Options{})
		c.Life = 10 * time.Minute
		for minute := range 30 { // before it expires, never because it was refused
			if got := c.is(t, c.Issue("anna", "services")); got != "anna services admin,member" {
				t.Fatalf("after %d min: %s", minute, got)
			}
			time.Sleep(time.Minute)
		}
		if c.Asked("POST") != 4 || c.Asked("GET") != 30 {
			t.Errorf("in half an hour %d logins and %d validations", c.Asked("POST"), c.Asked("GET"))
		}
		c.RevokeAll() // Keystone has new keys
		anna := c.Issue("anna", "services")
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if got := c.is(t, anna); got != "anna services admin,member" {
					t.Errorf("caller %d: %s", i, got)
				}
			})
		}
		wg.Wait()
		if c.Asked("POST") != 5 {
			t.Errorf("%d logins after the token was not taken", c.Asked("POST"))
		}
	})
}

func TestOneTokenIsAskedForOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, Options{})
		c.Before = func(_ http.ResponseWriter, r *http.Request) bool {
			time.Sleep(time.Second)
			return false
		}
		tokens := []string{c.Issue("anna", "services"), c.Issue("anna", "other")}
		gone, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		began := time.Now()
		wg.Go(func() { // the first who asks goes away, and takes nobody along
			a := new(Away)
			if _, err := c.Validate(gone, tokens[0]); !errors.As(err, &a) || time.Since(began) != 100*time.Millisecond {
				t.Errorf("who went away: %v after %v", err, time.Since(began))
			}
		})
		synctest.Wait()
		for i := range 100 {
			wg.Go(func() {
				if _, err := c.Validate(t.Context(), tokens[i%2]); err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if c.Asked("POST") != 1 || c.Asked("GET") != 2 {
			t.Errorf("%d logins, %d validations", c.Asked("POST"), c.Asked("GET"))
		}
	})
}

func TestWhileKeystoneIsAwayKnownTokensGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away bool
		c := newCloud(t, Options{})
		c.broken(&away)
		anna, bert := c.Issue("anna", "services"), c.Issue("anna", "other")
		if got := c.is(t, anna); got != "anna services admin,member" {
			t.Fatal(got)
		}
		away = true
		for range 590 { // 59 s
			if got := c.is(t, anna); got != "anna services admin,member" {
				t.Fatal(got)
			}
			a := new(Away)
			if _, err := c.Validate(t.Context(), bert); !errors.As(err, &a) || a.Wait <= 0 || a.Wait > pauses.Max {
				t.Fatalf("one that is not known: %v", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if tries := c.Asked("GET") - 1; tries < 3 || tries > 12 {
			t.Errorf("in a minute it was tried %d times", tries)
		}
		time.Sleep(2 * time.Second)
		a := new(Away)
		if _, err := c.Validate(t.Context(), anna); !errors.As(err, &a) {
			t.Errorf("after the window: %v", err)
		}
		away = false
		time.Sleep(pauses.Max)
		for token, want := range map[string]string{anna: "anna services admin,member", bert: "anna other reader"} {
			if got := c.is(t, token); got != want {
				t.Errorf("it is back: %s", got)
			}
		}
		if want := []string{"ask Keystone: it does not answer: connection reset by peer", "<nil>"}; strings.Join(c.reported,
			", ") != strings.Join(want, ", ") {
			t.Errorf("told %q", c.reported)
		}
	})
}

func TestASlowKeystoneHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, Options{})
		anna := c.Issue("anna", "services")
		c.Before = func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}
		began := time.Now()
		if _, err := c.Validate(t.Context(), anna); err == nil || !strings.Contains(err.Error(), "it does not answer") ||
			time.Since(began) > flightTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		began = time.Now()
		if _, err := c.Validate(t.Context(), anna); err == nil || time.Since(began) > 0 {
			t.Errorf("the next one waits %v: %v", time.Since(began), err)
		}
	})
}

// TestManySlowAnswersHaveADeadline: each answer comes in time, all of them together do not.
func TestManySlowAnswersHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, Options{})
		c.Before = func(w http.ResponseWriter, r *http.Request) bool {
			time.Sleep(requestTimeout - time.Millisecond)
			if r.Method == http.MethodGet {
				w.WriteHeader(http.StatusUnauthorized)
			}
			return r.Method == http.MethodGet
		}
		began, a := time.Now(), new(Away)
		if _, err := c.Validate(t.Context(), "token"); !errors.As(err, &a) || time.Since(began) != flightTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(requestTimeout) // the answer that nobody waits for any more
	})
}

func TestTokensAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, Options{})
		c.Before = func(http.ResponseWriter, *http.Request) bool {
			time.Sleep(time.Second)
			return false
		}
		var wg sync.WaitGroup
		for i := range maxFlights {
			wg.Go(func() { _, _ = c.Validate(t.Context(), fmt.Sprint("guess-", i)) })
		}
		synctest.Wait()
		a := new(Away)
		if _, err := c.Validate(t.Context(), "one-more"); !errors.As(err, &a) || a.Wait != time.Second {
			t.Errorf("one more: %v", err)
		}
		wg.Wait()
		if len(c.flights) != 0 {
			t.Errorf("%d flights are left", len(c.flights))
		}
	})
}

func TestWhatIsKnownIsBounded(t *testing.T) {
	v, err := New(Options{URL: "http://k"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i := range 2 * maxKnown {
		v.forget(now)
		v.known[digest{byte(i), byte(i >> 8), byte(i >> 16)}] = answer{until: now.Add(time.Minute)}
	}
	if n := len(v.known); n > maxKnown || n < maxKnown/2 {
		t.Errorf("%d are known", n)
	}
}

func TestWhyTheControllerCanNotAsk(t *testing.T) {
	for want, turn := range map[string]func(c *cloud, w http.ResponseWriter, r *http.Request) bool{
		`Keystone refused the user, the password or the project`: func(c *cloud, _ http.ResponseWriter,
			_ *http.Request) bool {
			c.Users = nil
			return false
		},
		`it answers 503: "busy"`: func(_ *cloud, w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(503)
			_, _ = w.Write([]byte(`{"error":{"message":"busy"}}`))
			return true
		},
		`it answers 302`: func(_ *cloud, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://elsewhere.test/", http.StatusFound)
			return true
		},
		`invalid answer for API v3`: func(_ *cloud, w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(map[string]int{"GET": 200, "POST": 201}[r.Method])
			_, _ = w.Write([]byte(`<html>`))
			return true
		},
		`invalid answer: no`: func(_ *cloud, w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(map[string]int{"GET": 200, "POST": 201}[r.Method])
			_, _ = w.Write([]byte(`{"token":{}}`))
			return true
		},
		`no token in X-Subject-Token`: func(_ *cloud, w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(201)
			_, _ = w.Write([]byte(`{"token":{"user":{"id":"x"},"expires_at":"2100-01-01T00:00:00.000000Z"}}`))
			return true
		},
		`it answers 403: "no policy"`: func(_ *cloud, w http.ResponseWriter, r *http.Request) bool {
			if r.Method == "POST" {
				return false
			}
			w.WriteHeader(403)
			_, _ = w.Write([]byte(`{"error":{"message":"no policy"}}`))
			return true
		},
		`Keystone refused the controller's own token`: func(_ *cloud, w http.ResponseWriter, r *http.Request) bool {
			if r.Method == "GET" {
				w.WriteHeader(401)
			}
			return r.Method == "GET"
		},
		`answer too long`: func(_ *cloud, w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(201)
			_, _ = w.Write(make([]byte, largestBody+1))
			return true
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCloud(t, Options{})
			anna := c.Issue("anna", "services")
			c.Before = func(w http.ResponseWriter, r *http.Request) bool { return turn(c, w, r) }
			a := new(Away)
			_, err := c.Validate(t.Context(), anna)
			if !errors.As(err, &a) || !strings.Contains(err.Error(), want) || a.Wait <= 0 {
				t.Errorf("%v, want %q", err, want)
			}
			if len(c.reported) != 1 || !strings.Contains(c.reported[0], want) || strings.Contains(c.reported[0], "own\"") ||
				strings.Contains(c.reported[0], anna) {
				t.Errorf("told %q", c.reported)
			}
		})
	}
	c := newCloud(t, Options{Secret: func() (string, error) { return "", errors.New("password file: is away") }})
	if got := c.is(t, "x"); !strings.Contains(got, "password file: is away") {
		t.Error(got)
	}
}

func TestARenewalThatFailsKeepsTheOldToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, Options{})
		c.Life = 10 * time.Minute
		if got := c.is(t, c.Issue("anna", "services")); got != "anna services admin,member" {
			t.Fatal(got)
		}
		delete(c.Users, "configdb")
		time.Sleep(9 * time.Minute)
		if got := c.is(t, c.Issue("anna", "services")); got != "anna services admin,member" {
			t.Errorf("a minute before the end: %s", got)
		}
		time.Sleep(2 * time.Minute)
		if got := c.is(t, c.Issue("anna", "services")); !strings.Contains(got, "Keystone refused") {
			t.Errorf("after the end: %s", got)
		}
	})
}

func TestProjectsOfATokenThatCount(t *testing.T) {
	own := Identity{ProjectDomainID: "default"}
	ours := Identity{Project: "services", ProjectID: "5e", ProjectDomain: "Default", ProjectDomainID: "default"}
	theirs := Identity{Project: "services", ProjectID: "7e", ProjectDomain: "Theirs", ProjectDomainID: "d2"}
	for _, c := range []struct {
		projects    string
		own, theirs bool
	}{
		{"services", true, false},
		{"7e", false, true},
		{"Theirs/services", false, true},
		{"d2/services", false, true},
		{"Default/services,Theirs/other", true, false},
		{"other", false, false},
		{"*", true, true},
		{"", false, false},
	} {
		list := strings.Split(c.projects, ",")
		if got := ours.In(list, own); got != c.own {
			t.Errorf("%s: ours %v", c.projects, got)
		}
		if got := theirs.In(list, own); got != c.theirs {
			t.Errorf("%s: theirs %v", c.projects, got)
		}
		if got := (Identity{}).In(list, own); got != (c.projects == "*") {
			t.Errorf("%s: a token of no project: %v", c.projects, got)
		}
	}
}
