package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// The schema registry. Only the commands for topics ask it: services take its ids from topic schemas.

const (
	// registryTimeout bounds the time of one answer.
	registryTimeout = 10 * time.Second
	// maxAnswer bounds an answer in bytes. The longest ones hold a schema, or the reasons why it is not compatible.
	maxAnswer = 4 << 20
)

// bounded is a transport that limits each answer to maxAnswer bytes, unpacked.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // the client wraps it
	}
	answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	return answer, nil
}

// errRegistry is returned if the registry is unreachable, refuses a request, or holds other schemas than weir's.
var errRegistry = errors.New("schema registry")

// CheckRegistryFiles returns nil if the files that section registry names can be read.
func CheckRegistryFiles(r config.Registry) error {
	if r.URL == "" {
		return nil
	}
	_, err := newRegistry(r)
	return err
}

// registry is a schema registry and its address.
type registry struct {
	*sr.Client
	url string
}

func newRegistry(r config.Registry) (registry, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if r.CAFile != "" {
		pool, err := config.Authorities("registry.ca_file", r.CAFile)
		if err != nil {
			return registry{}, err
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	opts := []sr.ClientOpt{
		sr.URLs(strings.TrimRight(r.URL, "/")), sr.UserAgent("weir"),
		sr.HTTPClient(&http.Client{Timeout: registryTimeout, Transport: bounded{transport}}),
	}
	if r.User != "" {
		password, err := secret("registry.password_file", r.PasswordFile)
		if err != nil {
			return registry{}, err
		}
		opts = append(opts, sr.BasicAuth(r.User, password))
	}
	cl, err := sr.NewClient(opts...)
	if err != nil {
		return registry{}, fmt.Errorf("registry.url %s: %w", r.URL, err)
	}
	return registry{cl, r.URL}, nil
}

// Subject returns the subject of a topic's values, as Confluent's TopicNameStrategy names it.
func Subject(prefix, topic string) string { return prefix + topic + "-value" }

// avroSchema converts a shipped schema to a schema of the registry's client.
func avroSchema(s schemas.Schema) sr.Schema { return sr.Schema{Schema: s.Text} }

// lookup returns the id of a schema under a subject, and the registry's text. The id is 0 if the registry does not know
// the schema there.
func (r registry) lookup(ctx context.Context, subject string, s schemas.Schema) (id uint32, text string, err error) {
	found, err := r.LookupSchema(ctx, subject, avroSchema(s))
	if notThere(err) {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", r.explain(subject, err)
	}
	id, err = r.checkID(subject, found.ID)
	return id, found.Schema.Schema, err
}

// notThere reports whether the registry knows no such subject, version or schema. An address without a registry answers
// 404 as well, but without these codes.
func notThere(err error) bool {
	of := new(sr.ResponseError)
	return errors.As(err, &of) && of.StatusCode == http.StatusNotFound && sr.IsNotFoundError(of.ErrorCode)
}

// checkID refuses an id that no value can hold.
func (r registry) checkID(subject string, id int) (uint32, error) {
	if id <= 0 || id > 1<<31-1 {
		return 0, fmt.Errorf("%w %s: subject %s: id %d is not in 1 to 2147483647: %s",
			errRegistry, r.url, subject, id, otherAPI)
	}
	return uint32(id), nil
}

// otherAPI is the remedy if another service answers.
const otherAPI = "check that registry.url leads to Confluent's API: Apicurio offers it below /apis/ccompat/v7"

// explain names the registry, the subject and the remedy.
func (r registry) explain(subject string, err error) error {
	remedy := "check registry.url and registry.ca_file, and that the registry runs; services go on without it"
	if of := new(sr.ResponseError); errors.As(err, &of) {
		switch of.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			remedy = "check registry.user and registry.password_file, and that user's rights"
		case http.StatusNotFound:
			remedy = otherAPI
		case http.StatusConflict:
			return r.incompatible(subject, err.Error())
		default:
			remedy = "the registry's log contains the details"
		}
		err = fmt.Errorf("status %d: %w", of.StatusCode, err)
	}
	return fmt.Errorf("%w %s: subject %s: %w: %s", errRegistry, r.url, subject, err, remedy)
}

// incompatible is the error of a subject with a version that weir's schemas are not compatible with.
func (r registry) incompatible(subject, reason string) error {
	return fmt.Errorf("%w %s: subject %s has a version with which weir's schema is not compatible (%s): "+
		"if it is not weir's, delete the subject, or use another prefix; otherwise set its compatibility to BACKWARD",
		errRegistry, r.url, subject, cmp.Or(reason, "no reason given"))
}

// RegisterSchemas registers the shipped schemas of the public topics, and returns their ids by the keys of topic
// schemas. It registers nothing if one of them is not compatible with the registry's versions.
//
// Older schemas are registered first, in the order of their history. If a newer one is already registered, a missing
// older one is left out: as the latest version it would mislead the registry's tools. Nothing needs its id, since weir
// writes the newest only.
func RegisterSchemas(ctx context.Context, cfg config.Config) (map[string]uint32, error) {
	r, err := newRegistry(cfg.Registry)
	if err != nil {
		return nil, err
	}
	ids := map[string]uint32{}
	missing := map[string][]schemas.Schema{} // by topic
	for _, topic := range schemas.PublicTopics() {
		subject := Subject(cfg.Prefix, topic)
		for _, s := range schemas.OfTopic(topic) {
			id, _, err := r.lookup(ctx, subject, s)
			if err != nil {
				return nil, err
			}
			if id == 0 {
				missing[topic] = append(missing[topic], s)
				continue
			}
			ids[s.Key()], missing[topic] = id, nil
		}
		if len(missing[topic]) == 0 {
			continue
		}
		if err := r.checkCompatible(ctx, subject, missing[topic][0]); err != nil {
			return nil, err
		}
	}
	for _, topic := range schemas.PublicTopics() {
		subject := Subject(cfg.Prefix, topic)
		for _, s := range missing[topic] {
			id, err := r.RegisterSchema(ctx, subject, avroSchema(s), -1, -1)
			if err != nil {
				return nil, r.explain(subject, err)
			}
			if ids[s.Key()], err = r.checkID(subject, id); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}

// checkCompatible asks whether a schema may follow the latest version of a subject. A new subject accepts any schema.
func (r registry) checkCompatible(ctx context.Context, subject string, s schemas.Schema) error {
	verdict, err := r.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), subject, -1, avroSchema(s))
	switch {
	case notThere(err):
		return nil
	case err != nil:
		return r.explain(subject, err)
	case !verdict.Is:
		return r.incompatible(subject, strings.Join(verdict.Messages, "; "))
	}
	return nil
}

// CheckRegistry compares the registry with the ids of topic schemas, by its keys, and lets check compare each of the
// registry's texts with weir's schema. It returns ErrTopics joined with a line and a remedy for each difference.
func CheckRegistry(
	ctx context.Context, cfg config.Config, ids map[string]uint32, check func(s schemas.Schema, text string) error,
) error {
	r, err := newRegistry(cfg.Registry)
	if err != nil {
		return err
	}
	faults := []error{ErrTopics}
	for _, topic := range schemas.PublicTopics() {
		subject := Subject(cfg.Prefix, topic)
		all := schemas.OfTopic(topic)
		for i, s := range all {
			id, text, err := r.lookup(ctx, subject, s)
			if err != nil {
				return err
			}
			if text != "" { // a registry may answer with the id alone
				if err := check(s, text); err != nil {
					faults = append(faults, fmt.Errorf("registry %s: subject %s: the text of id %d: %w: "+
						"restore the registry from its backup", r.url, subject, id, err))
				}
			}
			newest := i == len(all)-1
			switch kept := ids[s.Key()]; {
			case id == kept && (id > 0 || !newest): // a missing older one is not needed
			case id == 0:
				faults = append(faults, fmt.Errorf("registry %s: subject %s lacks schema %s %s%s: "+
					"restore the registry from its backup, or run `weir topics create`, %s",
					r.url, subject, s.Name, s.Key(), hasID(kept), afterwards))
			case kept == 0:
				faults = append(faults, fmt.Errorf("registry %s: subject %s: topic %s has no id of schema %s %s: "+
					"run `weir topics create`", r.url, subject, cfg.Prefix+schemas.TopicSchemas, s.Name, s.Key()))
			default:
				faults = append(faults, fmt.Errorf("registry %s: subject %s: schema %s %s has id %d, topic %s has %d: "+
					"restore the registry from its backup, or run `weir topics create`, %s", r.url, subject, s.Name,
					s.Key(), id, cfg.Prefix+schemas.TopicSchemas, kept, afterwards))
			}
		}
	}
	if len(faults) == 1 {
		return nil
	}
	return errors.Join(faults...)
}

// afterwards lists the steps that new ids require.
const afterwards = "then restart collect, merge, find and balance; records of before keep ids that the registry lacks"

// hasID describes the id that records carry, if there is one.
func hasID(id uint32) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf(", which records name by id %d", id)
}
