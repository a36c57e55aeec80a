// Package keystonetest is a Keystone for tests: it answers requests for tokens of Keystone's API v3 with the documents
// and codes of Keystone 22 (platform/keystone compares it with a real one).
//
// It knows no policies, stores nothing, and is no part of a program.
package keystonetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// User is a user of the default domain with a password, and roles by the name of the project.
type User struct {
	Password string
	Roles    map[string][]string
}

// Keystone is an http.Handler. Set its fields before it serves.
type Keystone struct {
	Users   map[string]User
	Life    time.Duration     // of a token; 0: an hour
	Catalog map[string]string // URL of the public endpoint in RegionOne, by service type
	URL     string            // for WWW-Authenticate
	// Before is called with every request first, and may answer it instead of Keystone.
	Before func(w http.ResponseWriter, r *http.Request) (answered bool)

	mu     sync.Mutex
	tokens map[string]token
	asked  map[string]int
	count  int
}

type token struct {
	doc     map[string]any
	expires time.Time
}

// Asked returns how many requests with a method there were.
func (k *Keystone) Asked(method string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked[method]
}

// Revoke revokes a token.
func (k *Keystone) Revoke(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.tokens, text)
}

// RevokeAll revokes all tokens, as a restart with new keys does.
func (k *Keystone) RevokeAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.tokens)
}

// Issue creates a token as a login does; an empty project means no project.
func (k *Keystone) Issue(user, project string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	text, _ := k.issue(user, project)
	return text
}

func (k *Keystone) issue(user, project string) (string, token) {
	if k.tokens == nil {
		k.tokens = map[string]token{}
	}
	k.count++
	text := fmt.Sprintf("gAAAAAB-%s-%d", user, k.count)
	life := k.Life
	if life == 0 {
		life = time.Hour
	}
	const form = "2006-01-02T15:04:05.000000Z"
	now := time.Now().UTC()
	domain := map[string]any{"id": "default", "name": "Default"}
	doc := map[string]any{
		"methods": []string{"password"}, "audit_ids": []string{fmt.Sprint("audit-", k.count)},
		"user":       map[string]any{"domain": domain, "id": "id-of-" + user, "name": user, "password_expires_at": nil},
		"expires_at": now.Add(life).Format(form), "issued_at": now.Format(form),
	}
	if project != "" {
		doc["project"], doc["is_domain"] = map[string]any{"domain": domain, "id": "id-of-" + project, "name": project}, false
		roles := []any{}
		for _, r := range k.Users[user].Roles[project] {
			roles = append(roles, map[string]any{"id": "id-of-" + r, "name": r})
		}
		doc["roles"] = roles
	}
	t := token{doc, now.Add(life).Truncate(time.Microsecond)}
	k.tokens[text] = t
	return text, t
}

func (k *Keystone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	if k.asked == nil {
		k.asked = map[string]int{}
	}
	k.asked[r.Method]++
	k.mu.Unlock()
	if k.Before != nil && k.Before(w, r) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case r.URL.Path != "/v3/auth/tokens":
		fault(w, http.StatusNotFound, "Not Found", "The resource could not be found.")
	case r.Method == http.MethodPost:
		k.login(w, r)
	case r.Method == http.MethodGet:
		k.validate(w, r)
	default:
		fault(w, http.StatusMethodNotAllowed, "Method Not Allowed", "The method is not allowed for the requested URL.")
	}
}

func (k *Keystone) login(w http.ResponseWriter, r *http.Request) {
	type named struct {
		ID, Name string
		Domain   struct{ ID, Name string }
	}
	var d struct {
		Auth struct {
			Identity struct {
				Methods  []string
				Password struct {
					User struct {
						named
						Password string
					}
				}
			}
			Scope *struct{ Project named }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
		fault(w, http.StatusBadRequest, "Bad Request", "Expecting to find valid JSON")
		return
	}
	who, project := d.Auth.Identity.Password.User, ""
	u, known := k.Users[who.Name]
	known = known && who.Password == u.Password && ours(who.Domain.ID, who.Domain.Name) &&
		len(d.Auth.Identity.Methods) == 1
	if s := d.Auth.Scope; s != nil {
		project = s.Project.Name
		_, in := u.Roles[project]
		known = known && in && ours(s.Project.Domain.ID, s.Project.Domain.Name)
	}
	if !known {
		k.unauthorized(w)
		return
	}
	text, t := k.issue(who.Name, project)
	k.answer(w, r, http.StatusCreated, text, t)
}

// ours reports whether a domain is the only existing one.
func ours(id, name string) bool { return id == "default" || id == "" && name == "Default" }

func (k *Keystone) validate(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	own, known := k.tokens[r.Header.Get("X-Auth-Token")]
	if !known || !now.Before(own.expires) {
		k.unauthorized(w)
		return
	}
	text := r.Header.Get("X-Subject-Token")
	t, known := k.tokens[text]
	if !known || !now.Before(t.expires) {
		fault(w, http.StatusNotFound, "Not Found", "Could not recognize Fernet token")
		return
	}
	k.answer(w, r, http.StatusOK, text, t)
}

func (k *Keystone) answer(w http.ResponseWriter, r *http.Request, status int, text string, t token) {
	doc := map[string]any{}
	for key, v := range t.doc {
		doc[key] = v
	}
	if !r.URL.Query().Has("nocatalog") && doc["project"] != nil {
		services := []any{}
		for kind, url := range k.Catalog {
			services = append(services, map[string]any{"id": "id-of-" + kind, "type": kind, "name": kind, "endpoints": []any{
				map[string]any{"id": "e-of-" + kind, "interface": "public", "region": "RegionOne", "region_id": "RegionOne",
					"url": url},
			}})
		}
		doc["catalog"] = services
	}
	w.Header().Set("X-Subject-Token", text)
	w.Header().Set("Vary", "X-Auth-Token")
	write(w, status, map[string]any{"token": doc})
}

func (k *Keystone) unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", fmt.Sprintf("Keystone uri=%q", k.URL+"/v3"))
	fault(w, http.StatusUnauthorized, "Unauthorized", "The request you have made requires authentication.")
}

func fault(w http.ResponseWriter, status int, title, message string) {
	write(w, status, map[string]any{"error": map[string]any{"code": status, "message": message, "title": title}})
}

func write(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc) // the client may have disconnected
}
