# frozen_string_literal: true

require 'digest'
require 'uri'

module PuppetX
  module ConfigDB
    # What can't be answered. Its text never has a password or a token in it.
    class Error < StandardError; end

    # Options are what one entry of a hierarchy says: where to ask, as whom, and what to do when there is no answer.
    # All faults are reported at once, each with what is expected.
    class Options
      MERGES = %w[first hash deep].freeze
      ON_ERROR = %w[fail stale ignore].freeze
      TIMEOUT = 10 # seconds

      # The options that each kind of client has, and what their values may be.
      COMMON = {
        'uri' => :text, 'token' => :text, 'token_file' => :path, 'user' => :text, 'password' => :text, 'password_file' => :path,
        'ca_file' => :path, 'timeout' => :seconds, 'on_error' => ON_ERROR, 'cache_dir' => :path, 'strict' => :flag
      }.freeze
      HIERA5 = COMMON.merge(
        'resources' => :names, 'merge' => MERGES, 'knockout_prefix' => :text, 'sort_merged_arrays' => :flag, 'merge_hash_arrays' => :flag
      ).freeze
      HIERA3 = COMMON.merge('cert_file' => :path, 'key_file' => :path).freeze

      WANTED = {
        text: 'a string', path: 'an absolute path', seconds: 'a number of seconds above 0', flag: 'true and false', names: 'a list of names'
      }.freeze

      def initialize(given, known)
        @given = given
        @faults = []
        known.each { |name, kind| check(name, kind) }
        (given.keys - known.keys).each { |name| @faults << "#{name}: is unknown: #{known.keys.join(', ')} are allowed" }
        check_together
        raise Error, "options of ConfigDB: #{@faults.join('; ')}" unless @faults.empty?
      end

      def [](name)
        @given[name]
      end

      def timeout
        @given.fetch('timeout', TIMEOUT)
      end

      def on_error
        @given.fetch('on_error', 'fail')
      end

      # The header that says who asks; a token of Keystone and one of an operator have the same.
      def headers
        token = secret('token')
        token ? { 'X-Auth-Token' => token } : {}
      end

      # User and password, or nil.
      def basic
        @given['user'] && { user: @given['user'], password: secret('password') }
      end

      # Names what is asked for, and as whom: what one may see another one may not. The word of a file may change.
      def identity(uri)
        Digest::SHA256.hexdigest([uri, *@given.values_at('token', 'token_file', 'user', 'ca_file', 'cert_file')].inspect)
      end

      # The address of all data of the place that 'uri' names, if 'resources' are given; else 'uri' itself.
      def address
        return @given['uri'] unless @given['resources']

        query = { 'resources' => @given['resources'].join(',') }
        %w[merge knockout_prefix].each { |name| query[name] = @given[name] if @given[name] }
        %w[sort_merged_arrays merge_hash_arrays].each { |name| query[name] = '1' if @given[name] }
        "#{@given['uri']}/hiera/data?#{URI.encode_www_form(query)}"
      end

      # An address that leads where it seems to. What Puppet put into it may come from a node.
      def self.parse(address)
        uri = URI(address)
        raise Error, "uri #{uri.host}: has a user in it: the options user and password_file are allowed for that" if uri.userinfo

        unless uri.is_a?(URI::HTTP) && !uri.host.to_s.empty? # nil or "", by the version of URI
          raise Error, "uri #{address}: is no address: http://HOST/PATH and https://HOST/PATH are allowed"
        end
        if uri.path.match?(%r{//|/\.{1,2}(/|\z)}) || uri.path.match?(/%2e/i)
          raise Error, "uri #{address}: has an empty part, or one of dots: is a variable in it unset?"
        end

        uri
      rescue URI::InvalidURIError
        raise Error, 'uri: is misspelt: http://HOST/PATH and https://HOST/PATH are allowed'
      end

      private

      def check(name, kind)
        value = @given[name]
        return if value.nil? || allowed?(kind, value)

        words = kind.is_a?(Array) ? kind.join(', ') : WANTED[kind]
        @faults << "#{name}: is not allowed: #{words} #{words.match?(/,| and /) ? 'are' : 'is'}"
      end

      def allowed?(kind, value)
        case kind
        when :text then value.is_a?(String) && !value.empty? && !value.match?(/[\r\n]/)
        when :path then value.is_a?(String) && value.start_with?('/')
        when :seconds then value.is_a?(Numeric) && value.positive?
        when :flag then [true, false].include?(value)
        when :names then value.is_a?(Array) && !value.empty? && value.all? { |v| v.is_a?(String) && v.match?(/\A[^,]+\z/) }
        else kind.include?(value)
        end
      end

      def check_together
        @faults << 'uri: is missing: an entry of the hierarchy has uri or uris' unless @given['uri']
        one_of('token', 'token_file', 'user')
        one_of('password', 'password_file')
        if @given['user'].nil? == [@given['password'], @given['password_file']].any?
          @faults << 'user: goes with password or password_file'
        end
        alone = %w[merge knockout_prefix sort_merged_arrays merge_hash_arrays].select { |name| @given[name] }
        @faults << "#{alone.join(', ')}: only allowed with resources" if alone.any? && !@given['resources']
        @faults << 'uri: has a query in it: with resources it ends with the place' if @given['resources'] && @given['uri'].to_s.include?('?')
        @faults << 'cert_file: goes with key_file' if @given['cert_file'].nil? ^ @given['key_file'].nil?
      end

      def one_of(*names)
        here = names.select { |name| @given[name] }
        @faults << "#{here.join(', ')}: only one of them is allowed" if here.size > 1
      end

      def secret(name)
        file = @given["#{name}_file"]
        return @given[name] unless file

        text = File.read(file).strip
        raise Error, "#{name}_file #{file}: one line is allowed" if text.empty? || text.match?(/[\r\n]/)

        text
      rescue SystemCallError => e
        raise Error, "#{name}_file: #{e.message}"
      end
    end
  end
end
