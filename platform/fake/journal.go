package fake

import (
	"maps"
	"slices"
	"sync"
)

// Journal is a node's journal in memory, which outlives the nodes that write it.
type Journal struct {
	mu   sync.Mutex
	data map[string]map[string][]byte // by topic and key
}

// NewJournal returns an empty journal.
func NewJournal() *Journal { return &Journal{data: map[string]map[string][]byte{}} }

// Load returns a topic.
func (j *Journal) Load(topic string) (map[string][]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.data[topic]), nil
}

// Put sets a value.
func (j *Journal) Put(topic, key string, v []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.data[topic] == nil {
		j.data[topic] = map[string][]byte{}
	}
	j.data[topic][key] = v
	return nil
}

// Delete deletes a value. A missing one is no error.
func (j *Journal) Delete(topic, key string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.data[topic], key)
	return nil
}

// Topics returns the topics that have values.
func (j *Journal) Topics() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var topics []string
	for topic, values := range j.data {
		if len(values) > 0 {
			topics = append(topics, topic)
		}
	}
	slices.Sort(topics)
	return topics
}

// Keys returns the keys of a topic.
func (j *Journal) Keys(topic string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Sorted(maps.Keys(j.data[topic]))
}

// Get returns a value, nil if it is missing.
func (j *Journal) Get(topic, key string) []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.data[topic][key]
}

// Lose deletes a topic, as damage does.
func (j *Journal) Lose(topic string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.data, topic)
}
