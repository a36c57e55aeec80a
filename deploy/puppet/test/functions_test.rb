# frozen_string_literal: true

require 'minitest/autorun'
require 'puppet'
require 'puppet/pops'
require 'tmpdir'
require 'yaml'
require_relative 'stub'

MODULE = File.expand_path('..', __dir__)

# The functions under Puppet itself: its lookup reads a hiera.yaml that names them.
class FunctionsTest < Minitest::Test
  Dir.mktmpdir.tap do |dir|
    Minitest.after_run { FileUtils.rm_rf(dir) }
    FileUtils.mkdir_p(File.join(dir, 'modules'))
    FileUtils.ln_s(MODULE, File.join(dir, 'modules', 'configdb'))
    FileUtils.mkdir_p(File.join(dir, 'environments', 'production'))
    Puppet.initialize_settings(%w[confdir codedir vardir rundir logdir publicdir].flat_map { |name| ["--#{name}", File.join(dir, name)] })
    Puppet[:certname] = 'node-1.domain.tld'
    Puppet[:basemodulepath] = File.join(dir, 'modules')
    Puppet[:environmentpath] = File.join(dir, 'environments')
    Puppet[:log_level] = 'err'
  end

  def setup
    @dir = Dir.mktmpdir
    Puppet.push_context(Puppet.base_context(Puppet.settings).merge(trusted_information: {}), 'test')
  end

  def teardown
    Puppet.pop_context
    Puppet.runtime[:http].close
    PuppetX::ConfigDB::PuppetClient.instance_variable_set(:@documents, nil) if defined?(PuppetX::ConfigDB::PuppetClient)
    @stub&.close
    FileUtils.rm_rf(@dir)
  end

  def serve(tls: nil, &answer)
    @stub = Stub.new(tls: tls, &answer)
  end

  # Compiles a catalog, in which the block may look up.
  def compile(function, entry = {})
    kind = function == 'configdb::data' ? 'data_hash' : 'lookup_key'
    entry = { 'name' => 'ConfigDB', kind => function }.merge(entry)
    entry['uri'] ||= @stub.url('/a') unless entry['uris']
    config = File.join(@dir, 'hiera.yaml')
    File.write(config, YAML.dump('version' => 5, 'hierarchy' => [entry]))
    Puppet[:hiera_config] = config
    Puppet[:code] = 'undef'
    node = Puppet::Node.new('node-1.domain.tld', facts: Puppet::Node::Facts.new('node-1.domain.tld', 'role' => 'compute'), environment: Puppet.lookup(:environments).get!('production'))
    compiler = Puppet::Parser::Compiler.new(node)
    result = nil
    compiler.compile do |catalog|
      @scope = compiler.topscope
      result = yield
      catalog
    end
    result
  end

  def lookup(key, merge = nil)
    Puppet::Pops::Lookup.lookup(key, nil, :nothing, true, merge, Puppet::Pops::Lookup::Invocation.new(@scope, {}, {}))
  end

  def each_function(&block)
    %w[configdb::data configdb::lookup].each do |f|
      @stub&.close
      block.call(f)
    end
  end

  def test_one_request_for_each_document_and_catalog
    each_function do |f|
      serve(&controller('/a' => '{"k":1,"n":null,"i":"%{facts.role}","d.e":{"f":[1,{"g":"x"}]},"t":"%{literal(\'%\')}{x}"}', '/b' => '{"n":2,"z":3}'))
      3.times do |i|
        got = compile(f, 'uris' => [@stub.url('/a'), @stub.url('/b')]) { ['k', 'n', 'i', "'d.e'.f.1.g", 't', 'z', 'nope'].map { |key| lookup(key) } }
        assert_equal [1, nil, 'compute', 'x', '%{x}', 3, :nothing], got, f
        assert_equal 2 * (i + 1), @stub.count, f
      end
      assert_equal [nil, nil] + ['304'] * 4, 6.times.map { @stub.requests.pop.headers['if-none-match'] && '304' }, f
    end
  end

  def test_lookup_options_are_obeyed
    each_function do |f|
      serve(&controller('/a' => '{"l":[1],"h":{"a":{"x":1}},"lookup_options":{"l":{"merge":"unique"},"^h":{"merge":"deep"}},"secret":"s"}',
                        '/b' => '{"l":[2],"h":{"a":{"y":2}},"lookup_options":{"secret":{"convert_to":"Sensitive"}}}'))
      compile(f, 'uris' => [@stub.url('/a'), @stub.url('/b')]) do
        assert_equal [1, 2], lookup('l')
        assert_equal({ 'a' => { 'x' => 1, 'y' => 2 } }, lookup('h'))
        assert_equal 's', lookup('secret').unwrap
      end
    end
  end

  def test_all_resources_in_one_request
    each_function do |f|
      serve { [200, {}, '{"k":1}'] }
      compile(f, 'uri' => @stub.url('/nodes/%{facts.role}'), 'options' => { 'resources' => %w[override/node globals], 'merge' => 'deep', 'sort_merged_arrays' => true }) { assert_equal 1, lookup('k') }
      assert_equal '/nodes/compute/hiera/data?resources=override%2Fnode%2Cglobals&merge=deep&sort_merged_arrays=1', @stub.requests.pop.path
      assert_equal 0, @stub.count
    end
  end

  def test_who_asks
    file = File.join(@dir, 'token')
    File.write(file, "t0ken\n")
    each_function do |f|
      serve { |r| [200, {}, JSON.generate('said' => r.headers.slice('x-auth-token', 'authorization'))] }
      compile(f, 'options' => { 'token_file' => file }) { assert_equal({ 'x-auth-token' => 't0ken' }, lookup('said')) }
      compile(f, 'options' => { 'user' => 'u', 'password' => 'p' }) { assert_equal({ 'authorization' => 'Basic dTpw' }, lookup('said')) }
    end
  end

  def fails(words, function, entry = {})
    e = assert_raises(Puppet::Error) { compile(function, entry) { lookup('k') } }
    assert_includes e.message, words
  end

  def test_failures_are_errors_of_the_lookup
    each_function do |f|
      serve { [403, {}, '{"msg":"viewer may not"}'] }
      fails '403: viewer may not', f
      fails 'wrong: is unknown', f, 'options' => { 'wrong' => 1 }
      fails 'has an empty part', f, 'uri' => @stub.url('/%{facts.unset}/values')
      @stub.close
      serve { [302, { 'Location' => @stub.url('/a') }, ''] }
      assert_raises(Puppet::Error) { compile(f, 'options' => { 'on_error' => 'fail' }) { lookup('k') } }
      assert_equal 1, @stub.count
      @stub.close
      serve { sleep }
      fails 'no answer within 0.2 s', f, 'options' => { 'timeout' => 0.2 }
      @stub.close
      serve { [503, { 'Retry-After' => '60' }, ''] }
      fails 'no answer within 0.3 s', f, 'options' => { 'timeout' => 0.3 }
    end
  end

  # What comes too late is not taken for the answer to what is asked next.
  def test_a_late_answer_is_nobodys
    each_function do |f|
      gate = Queue.new
      serve { |r| gate.pop if r.path == '/late'; [200, {}, JSON.generate('k' => r.path)] }
      compile(f) { assert_equal '/a', lookup('k') }
      fails 'no answer within 0.1 s', f, 'uri' => @stub.url('/late'), 'options' => { 'timeout' => 0.1 }
      gate << :open
      compile(f) { assert_equal '/a', lookup('k') }
    end
  end

  def test_a_resource_that_is_not_there_and_a_controller_that_is_away
    each_function do |f|
      serve(&controller({}))
      compile(f) { assert_equal :nothing, lookup('k') }
      fails '404: resource_definition not found', f, 'options' => { 'strict' => true }
      @stub.close
      compile(f, 'options' => { 'on_error' => 'ignore' }) { assert_equal :nothing, lookup('k') }
      fails 'Connection refused', f
    end
  end

  def test_what_was_said_before_is_used
    docs = { '/a' => '{"k":1}' }
    each_function do |f|
      serve(&controller(docs))
      dir = File.join(@dir, f.tr(':', ''))
      more = { 'uri' => @stub.url('/a'), 'options' => { 'on_error' => 'stale', 'cache_dir' => dir } }
      compile(f, more) { assert_equal 1, lookup('k') }
      @stub.close
      2.times do
        compile(f, more) { assert_equal 1, lookup('k') }
        PuppetX::ConfigDB::PuppetClient.instance_variable_set(:@documents, nil) # a new process
      end
    end
  end

  # The agent's own certificate is shown, and a CA of a file is trusted beside Puppet's.
  def test_certificates
    ca = Authority.new(@dir)
    each_function do |f|
      serve(tls: ca.server, &controller('/a' => '{"k":1}'))
      fails 'certificate verify failed', f
      fails @stub.url, f, 'options' => { 'ca_file' => ca.file('ca.pem') } # it shows none yet
      fails 'ca_file: No such file', f, 'options' => { 'ca_file' => '/nowhere' }
      Puppet.settings.use(:main, :ssl)
      cert, key = ca.issue('node-1.domain.tld')
      FileUtils.cp(cert, Puppet[:hostcert])
      FileUtils.cp(key, Puppet[:hostprivkey])
      PuppetX::ConfigDB::PuppetClient.instance_variable_set(:@trust, nil)
      compile(f, 'options' => { 'ca_file' => ca.file('ca.pem') }) { assert_equal 1, lookup('k') }
      FileUtils.rm_f([Puppet[:hostcert], Puppet[:hostprivkey]])
      PuppetX::ConfigDB::PuppetClient.instance_variable_set(:@trust, nil)
    end
  end
end
